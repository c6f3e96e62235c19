//! The recovery sheet: what somebody needs who has nothing left but paper.

use crate::key::Key;
use crate::target::Target;
use braid_pool::step::quoted;

/// What is on it.
pub struct Sheet<'a> {
    /// Where the backups are.
    pub target: &'a Target,
    /// What opens them.
    pub key: &'a Key,
    /// The computer that makes them.
    pub host: &'a str,
    /// What it backs up.
    pub paths: Vec<String>,
    /// The day, as a person reads it.
    pub date: &'a str,
}

impl Sheet<'_> {
    /// As it is printed: at most 78 columns, one page.
    pub fn text(&self) -> String {
        let Sheet { target, key, host, paths, date } = self;
        let restic = target.shown();
        let paths = match paths.is_empty() {
            true => "(nothing yet)".to_owned(),
            false => paths.join(", "),
        };
        let credentials = match target {
            Target::Folder(_) => "  The disk or share that has the folder.",
            Target::S3 { .. } => {
                "  An access key of the S3 server, in AWS_ACCESS_KEY_ID and\n  \
                 AWS_SECRET_ACCESS_KEY. The provider's account can make a new one:\n  \
                 note where that account is and who can enter it."
            }
            Target::Sftp { .. } => "  A user of that computer, by ssh.",
            Target::Rest(_) => {
                "  User and password of that server, in RESTIC_REST_USERNAME and\n  \
                 RESTIC_REST_PASSWORD, or in its address."
            }
        };
        format!(
            "RECOVERY SHEET FOR THE BACKUPS OF {host}\n\
             {rule}\n\n\
             Printed {date}. Keep it where a fire at home doesn't reach it.\n\
             Whoever has it, and reaches the place below, can read all backups.\n\
             Without the key NOBODY can read them, and nobody can make it again.\n\n\
             WHAT      {paths}\n\
             WHERE     {restic}\n\
             KEY       {secret}\n\n\
             The key has digits and capitals but no I, L, O, U; its dashes belong to it.\n\n\
             BESIDES THE KEY YOU NEED\n\
             {credentials}\n\n\
             WITH BRAID, ON ANY LINUX\n  \
             write the line with the key into a file `key`, then\n\n    \
             chmod 600 key\n    \
             WHERE={word}\n    \
             braid pool backup list --key key \"$WHERE\"\n    \
             braid pool backup restore --key key \"$WHERE\" latest --to /restored\n\n\
             WITHOUT BRAID: they are repositories of restic (https://restic.net), which\n\
             Debian and most others have as a package\n\n    \
             WHERE={word}\n    \
             restic -r \"$WHERE\" --password-file key snapshots\n    \
             restic -r \"$WHERE\" --password-file key restore latest --target /restored\n",
            rule = "=".repeat(34 + host.chars().count()),
            secret = key.reveal(),
            word = quoted(&restic),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_has_all_that_is_needed_on_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::make(&folder.path().join("key")).unwrap();
        let target = "s3://s3.example.org/photos".parse().unwrap();
        let sheet = Sheet {
            target: &target,
            key: &key,
            host: "nas",
            paths: vec!["/srv/photos".to_owned()],
            date: "2026-11-24",
        };
        let text = sheet.text();
        for part in [key.reveal(), "s3:https://s3.example.org/photos", "/srv/photos", "restic -r"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.lines().count() < 60 && text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
