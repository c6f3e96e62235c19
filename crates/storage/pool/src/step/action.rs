use super::Condition;
use crate::untrusted::{Untrusted, deceives};
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something to do to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Run a program to its end; a status other than 0 is a failure.
    Run(Argv),
    /// Write a whole file: to a temporary one beside it, fsync, rename, fsync of the directory.
    WriteFile {
        /// Absolute path.
        path: String,
        /// What it then holds.
        text: String,
        /// Its permissions.
        mode: u32,
    },
    /// Remove a file; it may be gone already.
    RemoveFile {
        /// Absolute path.
        path: String,
    },
    /// Ensure that a file has a line, by replacing it as [`Action::WriteFile`] does. Other lines
    /// stay as they are.
    EnsureLine {
        /// Absolute path; made when missing.
        file: String,
        /// The line, without its end.
        line: String,
        /// Lines that contain this text are replaced by it (it takes the first one's place, the
        /// others are removed).
        instead_of: Option<String>,
    },
    /// Remove exactly this line, if it is there.
    RemoveLine {
        /// Absolute path.
        file: String,
        /// The line, without its end.
        line: String,
    },
    /// Make a directory and those above it.
    MakeDirectory {
        /// Absolute path.
        path: String,
    },
    /// Remove a directory if it is there, is empty and nothing is mounted on it.
    RemoveDirectory {
        /// Absolute path.
        path: String,
    },
    /// Make a file with a random key that opens LUKS volumes, readable only by its owner, unless it
    /// exists. The key is nowhere else: not in the plan, not in the journal.
    MakeKeyFile {
        /// Absolute path.
        path: String,
    },
    /// Remove a file with keys; it may be gone already.
    RemoveKeys {
        /// Absolute path.
        path: String,
    },
    /// Copy the header of a LUKS volume to a file, readable only by its owner.
    BackUpHeader {
        /// The device that the volume is on.
        device: String,
        /// Absolute path.
        file: String,
    },
    /// Write one value to a file of sysfs or procfs.
    SetKernel {
        /// Absolute path.
        path: String,
        /// The value, without a line end.
        value: String,
    },
    /// Wait until a condition holds, as long as `progress` still moves or the operation still runs.
    WaitFor {
        /// What is waited for.
        until: Condition,
        /// Where to see how far it is.
        progress: Progress,
    },
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argv {
    /// Looked up in PATH.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it reads on its standard input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// Where to see how far it is while it runs, if it takes long.
    pub progress: Option<Progress>,
}

/// Where the kernel reports the progress of a long operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// `BTRFS_IOC_BALANCE_PROGRESS`.
    BtrfsBalance {
        /// The filesystem.
        uuid: Uuid,
    },
    /// `BTRFS_IOC_DEV_REPLACE` status.
    BtrfsReplace {
        /// The filesystem.
        uuid: Uuid,
    },
    /// Bytes still on the device that is being removed.
    BtrfsRemove {
        /// The filesystem.
        uuid: Uuid,
        /// The device.
        devid: u64,
    },
    /// `md/sync_completed`.
    MdSync {
        /// The array.
        uuid: Uuid,
    },
    /// Bytes used on the devices of a filesystem that a program fills; unlike those above it ends
    /// with the program.
    BtrfsFill {
        /// The filesystem.
        uuid: Uuid,
        /// How many will be used in the end.
        bytes: u64,
    },
    /// Nothing reports it.
    Unknown,
}

impl Argv {
    /// A program that is soon done.
    pub fn new(program: &str, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Argv { program: program.to_owned(), args, input: String::new(), progress: None }
    }

    /// The same, with something to read.
    pub fn with_input(mut self, text: String) -> Self {
        self.input = text;
        self
    }

    /// The same, with a place to see how far it is.
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Display for Argv {
    /// As one would type it into a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))?;
        if self.input.is_empty() {
            return Ok(());
        }
        write!(f, " <<'END'\n{}\nEND", self.input.trim_end())
    }
}

/// One word of a POSIX shell's command that means `word` itself.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.contains(deceives) {
        // In quotes such characters would be shown raw; printf(1) makes them from numbers.
        let octal = |byte: &u8| format!(r"\0{byte:03o}");
        let of = |c: char| match plain(c) || c == ' ' {
            true => c.to_string(),
            false => c.to_string().as_bytes().iter().map(octal).collect(),
        };
        let numbers: String = word.chars().map(of).collect();
        return format!(r#""$(printf %b '{numbers}')""#);
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Run(argv) => argv.fmt(f),
            Action::WriteFile { path, .. } => write!(f, "write {}", Untrusted(path)),
            Action::RemoveFile { path } | Action::RemoveKeys { path } => {
                write!(f, "remove {}", Untrusted(path))
            }
            Action::EnsureLine { file, line, .. } => write!(f, "{file}: {line}"),
            Action::RemoveLine { file, line } => write!(f, "{file}: without {line}"),
            Action::MakeDirectory { path } => write!(f, "mkdir -p {}", quoted(path)),
            Action::RemoveDirectory { path } => write!(f, "rmdir {}", quoted(path)),
            Action::MakeKeyFile { path } => {
                write!(f, "write {} (a random key of 160 bits, mode 0400)", quoted(path))
            }
            Action::BackUpHeader { device, file } => write!(
                f,
                "cryptsetup luksHeaderBackup {} --header-backup-file {}",
                quoted(device),
                quoted(file)
            ),
            Action::SetKernel { path, value } => write!(f, "echo {} > {path}", quoted(value)),
            Action::WaitFor { until, .. } => write!(f, "wait until {until}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Argv;

    #[test]
    fn a_word_that_would_command_the_terminal_is_written_in_numbers_and_means_itself() {
        for word in ["a\nb; x", "it's \x1b[2J", "\u{202e}exe", "plain", "$(id)", "-n"] {
            let shown = super::quoted(word);
            assert!(!shown.contains(crate::untrusted::deceives), "{shown}");
            let said = std::process::Command::new("sh")
                .args(["-c", &format!("printf '<%s>' {shown}")])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("<{word}>"));
        }
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let argv = Argv::new("mount", ["/dev/sda", "/mnt/it's mine", ""]);
        assert_eq!(argv.to_string(), r"mount /dev/sda '/mnt/it'\''s mine' ''");
        let argv = Argv::new("sfdisk", ["/dev/sda"]).with_input("label: gpt\n".to_owned());
        assert_eq!(argv.to_string(), "sfdisk /dev/sda <<'END'\nlabel: gpt\nEND");
    }
}
