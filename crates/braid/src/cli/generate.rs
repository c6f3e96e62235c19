//! `braid generate`: the files that a package installs beside the program. Hidden, since only
//! packagers need it.

mod man_page;

use super::command_line;
use super::failure::Failure;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes man pages (`man/`), completions (`completions/`) and the manual (`html/`).
#[derive(Args)]
pub struct Generate {
    /// Folder, made if need be
    folder: PathBuf,
}

impl Generate {
    pub fn run(&self) -> Result<(), Failure> {
        self.man_pages()?;
        self.completions()?;
        self.manual()
    }

    fn man_pages(&self) -> Result<(), Failure> {
        let mut failed = Ok(());
        for_each_command(&tree(), &mut |command| {
            let name = format!("{}.1", man_page::name(command));
            let written = man_page::render(command)
                .map_err(|error| Failure::io("writing a man page", &error))
                .and_then(|page| write(&self.folder.join("man").join(name), &page));
            if failed.is_ok() {
                failed = written;
            }
        });
        failed
    }

    fn completions(&self) -> Result<(), Failure> {
        let shells = [(Shell::Bash, "braid"), (Shell::Zsh, "_braid"), (Shell::Fish, "braid.fish")];
        for (shell, name) in shells {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut tree(), "braid", &mut text);
            write(&self.folder.join("completions").join(name), &text)?;
        }
        Ok(())
    }

    fn manual(&self) -> Result<(), Failure> {
        for path in braid_own_manual::paths() {
            if let Some(file) = braid_own_manual::file(path) {
                write(&self.folder.join("html").join(path), &file.unpacked())?;
            }
        }
        Ok(())
    }
}

/// The commands, without `help`, which has no page of its own.
fn tree() -> Command {
    fn without_help(command: Command) -> Command {
        command.disable_help_subcommand(true).mut_subcommands(without_help)
    }
    let mut tree = without_help(command_line());
    tree.build();
    tree
}

/// Visits every command that users may call, each before its subcommands.
fn for_each_command(command: &Command, visit: &mut impl FnMut(&Command)) {
    visit(command);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        for_each_command(inner, visit);
    }
}

fn write(file: &Path, content: &[u8]) -> Result<(), Failure> {
    let written = match file.parent() {
        Some(folder) => fs::create_dir_all(folder).and_then(|()| fs::write(file, content)),
        None => fs::write(file, content),
    };
    written.map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command as Program;

    #[test]
    fn every_command_has_a_man_page_that_mandoc_reads() {
        let folder = tempfile::tempdir().unwrap();
        Generate { folder: folder.path().to_owned() }.man_pages().unwrap();
        let man = folder.path().join("man");
        let mut pages = Vec::new();
        for_each_command(&tree(), &mut |command| {
            let page = man.join(format!("{}.1", man_page::name(command)));
            let text = fs::read_to_string(&page).unwrap();
            for section in ["NAME", "SYNOPSIS", "SEE ALSO"] {
                let mut heads = text.lines().filter_map(|line| line.strip_prefix(".SH "));
                assert!(heads.any(|it| it.trim_matches('"') == section), "{section} in\n{text}");
            }
            for option in text.split("\n.TP\n").skip(1) {
                let said = option.lines().nth(1).unwrap_or_default();
                assert!(!said.trim().is_empty(), "{}: {option}", page.display());
            }
            // The pages that it refers to exist.
            let (_, see) = text.split_once(".SH \"SEE ALSO\"").unwrap();
            for other in see.split("\\fB").skip(1).filter_map(|rest| rest.split("\\fR").next()) {
                let other = man.join(format!("{}.1", other.replace("\\-", "-")));
                assert!(other.exists(), "{}: {}", page.display(), other.display());
            }
            for path in see.lines().filter_map(|line| line.strip_prefix(man_page::SITE)) {
                let path = path.trim_start_matches('/').replace("\\-", "-");
                assert!(braid_own_manual::file(&path).is_some(), "{path} in {}", page.display());
            }
            pages.push(page);
        });
        assert!(pages.len() > 50, "only {} pages", pages.len());
        let Ok(told) =
            Program::new("mandoc").args(["-T", "lint", "-W", "error"]).args(&pages).output()
        else {
            eprintln!("SKIPPED: there is no mandoc");
            return;
        };
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
    }

    #[test]
    fn a_synopsis_names_what_options_and_places_take() {
        let synopsis = |words: &[&str]| {
            let mut command = tree();
            for word in words {
                command = command.find_subcommand(word).unwrap().clone();
            }
            let page = String::from_utf8(man_page::render(&command).unwrap()).unwrap();
            let (_, rest) = page.split_once(".SH SYNOPSIS\n").unwrap();
            let line = rest.lines().next().unwrap();
            line.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\-", "-")
        };
        let link = synopsis(&["link", "set"]);
        assert!(link.starts_with("braid link set [--json]"), "{link}");
        assert!(link.contains(" [--cap-down RATE] ") && link.ends_with(" NAME"), "{link}");
        assert!(synopsis(&["link"]).ends_with(" COMMAND"));
        assert!(synopsis(&[]).ends_with(" [COMMAND]"));
        assert!(synopsis(&["rule", "add"]).contains(" --do WHAT "), "required");
        assert!(synopsis(&["rule", "add"]).contains(" [--to-file FILE...] "), "repeated");
    }

    #[test]
    #[cfg(feature = "pools")]
    fn completions_offer_the_layouts() {
        let folder = tempfile::tempdir().unwrap();
        Generate { folder: folder.path().to_owned() }.completions().unwrap();
        for name in ["braid", "_braid", "braid.fish"] {
            let text = fs::read_to_string(folder.path().join("completions").join(name)).unwrap();
            for layout in ["btrfs-raid1", "btrfs-raid10", "md-raid6", "md-raid10-f2"] {
                assert!(text.contains(layout), "{name}: {layout}");
            }
        }
    }

    #[test]
    fn completions_know_every_command() {
        let folder = tempfile::tempdir().unwrap();
        Generate { folder: folder.path().to_owned() }.completions().unwrap();
        for name in ["braid", "_braid", "braid.fish"] {
            let text = fs::read_to_string(folder.path().join("completions").join(name)).unwrap();
            for_each_command(&tree(), &mut |command| {
                assert!(text.contains(command.get_name()), "{name}: {}", command.get_name());
            });
        }
    }

    #[test]
    fn the_manual_comes_out_as_files() {
        let folder = tempfile::tempdir().unwrap();
        Generate { folder: folder.path().to_owned() }.manual().unwrap();
        let index = fs::read_to_string(folder.path().join("html/index.html")).unwrap();
        assert!(index.contains("<html"), "{index}");
    }
}
