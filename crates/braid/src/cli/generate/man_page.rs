//! A command's man page: clap_mangen writes what clap knows; what we write after the help becomes
//! the sections that readers of man pages look for.

use crate::cli::manual_pages;
use clap::Command;
use clap_mangen::Man;
use roff::{Inline, Roff, bold, roman};
use std::io;

/// Where packages put the manual.
pub const SITE: &str = "/usr/share/doc/braid/html";

/// `braid-pool-create`.
pub fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

pub fn render(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut man = Man::new(command.clone())
        .title(name(command).to_uppercase())
        .section("1")
        .source(concat!("braid ", env!("CARGO_PKG_VERSION")))
        .manual("Braid");
    if let Some(date) = date() {
        man = man.date(date);
    }
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    after_help(command).to_writer(&mut page)?;
    see_also(command).to_writer(&mut page)?;
    Ok(page)
}

/// Day of the release, where the packager says it: the same sources give the same bytes
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn date() -> Option<String> {
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()?;
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%Y-%m-%d").to_string())
}

/// Paragraphs that follow the help, each in its section.
fn after_help(command: &Command) -> Roff {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    let mut section = "";
    for paragraph in text.split("\n\n").map(str::trim_end) {
        if paragraph.starts_with("Manual: ") {
            continue;
        }
        let (head, rest) = match paragraph.split_once(':') {
            Some(("Example" | "Examples", rest)) => ("EXAMPLES", rest),
            Some(("Exit codes" | "Exit status", rest)) => ("EXIT STATUS", rest),
            _ => ("NOTES", paragraph),
        };
        if head != section {
            roff.control("SH", [head]);
            section = head;
        }
        // Lines are as we cut them.
        roff.control("PP", []);
        roff.control("nf", []);
        for line in rest.trim_matches('\n').lines() {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    }
    roff
}

/// The command above, those below, and the manual.
fn see_also(command: &Command) -> Roff {
    let words = command.get_bin_name().unwrap_or_default();
    let above = words.rsplit_once(' ').map(|(above, _)| above.replace(' ', "-"));
    let below = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let pages = above.into_iter().chain(below.map(name));
    let mut line: Vec<Inline> = Vec::new();
    for page in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(page), roman("(1)")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(line);
    for page in manual_pages::told_in(words.trim_start_matches("braid").trim_start()) {
        roff.control("PP", []);
        roff.text([roman(format!("{SITE}/{}/{page}.html", env!("CARGO_PKG_VERSION")))]);
    }
    roff
}
