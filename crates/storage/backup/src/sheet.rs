//! The recovery sheet: what somebody needs who has nothing left but paper.

use crate::key::Key;
use crate::target::Target;
use braid_pool::step::quoted;

/// A place for what isn't backed up yet.
const ANY: &str = "PATH";

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
    /// A command for each path, of Braid and of restic: `latest` alone is but the newest of one.
    fn restores(&self) -> [String; 2] {
        let any = [ANY.to_owned()];
        let paths = if self.paths.is_empty() { &any[..] } else { &self.paths[..] };
        let (mut braid, mut restic) = (String::new(), String::new());
        for path in paths {
            let to = match path.strip_prefix('/') {
                Some("") => "/restored".to_owned(),
                Some(below) => format!("/restored/{below}"),
                None => format!("/restored/{path}"),
            };
            let (path, to) = (quoted(path), quoted(&to));
            braid.push_str(&format!(
                "    braid pool backup restore --key key \"$WHERE\" latest \\\n      \
                 --path {path} --to {to}\n"
            ));
            restic.push_str(&format!(
                "    restic -r \"$WHERE\" --password-file key restore latest \\\n      \
                 --path {path} --target /restored\n"
            ));
        }
        [braid, restic]
    }

    /// As it is printed: at most 78 columns but for long paths, one page.
    pub fn text(&self) -> String {
        let Sheet { target, key, host, paths, date } = self;
        let restic = target.shown();
        let what = match paths.is_empty() {
            true => "(nothing yet)".to_owned(),
            false => paths.join("\n          "),
        };
        let [by_braid, by_restic] = self.restores();
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
             WHAT      {what}\n\
             WHERE     {restic}\n\
             KEY       {secret}\n\n\
             The key has digits and capitals but no I, L, O, U; its dashes belong to it.\n\n\
             BESIDES THE KEY YOU NEED\n\
             {credentials}\n\n\
             WITH BRAID, ON ANY LINUX\n  \
             write the line with the key into a file `key`, then\n\n    \
             chmod 600 key\n    \
             WHERE={word}\n    \
             braid pool backup list --key key \"$WHERE\"\n\n  \
             then for each PATH that it lists\n\n\
             {by_braid}\n\
             WITHOUT BRAID: they are repositories of restic (https://restic.net), which\n\
             Debian and most others have as a package\n\n    \
             WHERE={word}\n    \
             restic -r \"$WHERE\" --password-file key snapshots\n\n  \
             then for each of its Paths\n\n\
             {by_restic}\n  \
             Where several computers have the same path there, name the ID instead of\n  \
             `latest --path PATH`.\n",
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
            paths: ["/srv/photos", "/srv/it's mine"].map(str::to_owned).to_vec(),
            date: "2026-11-24",
        };
        let text = sheet.text();
        for part in [key.reveal(), "s3:https://s3.example.org/photos", "/srv/photos", "restic -r"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        // A command for each path: `latest` is that of one.
        for part in [
            "latest \\\n      --path /srv/photos --to /restored/srv/photos\n",
            "latest \\\n      --path /srv/photos --target /restored\n",
            r"--path '/srv/it'\''s mine' --to '/restored/srv/it'\''s mine'",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let nothing_yet = Sheet { paths: vec![], ..sheet }.text();
        assert!(nothing_yet.contains("--path PATH --to /restored/PATH"), "{nothing_yet}");
        assert!(text.lines().count() < 66 && text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
