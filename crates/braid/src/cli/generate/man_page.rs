//! A command's man page: clap_mangen writes what clap knows; our text after the help becomes the
//! sections that readers of man pages expect.

use crate::cli::manual_pages;
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use roff::{Inline, Roff, bold, italic, roman};
use std::io;

/// Where packages install the manual.
pub const SITE: &str = "/usr/share/doc/braid/html";

/// `braid-pool-create`.
pub fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

pub fn render(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // For arguments shown only by `--help` and not by `-h`, the library writes just the name.
    let told = command.clone().mut_args(|argument| argument.hide_short_help(false));
    let mut man = Man::new(told)
        .title(name(command).to_uppercase())
        .section("1")
        .source(concat!("braid ", env!("CARGO_PKG_VERSION")))
        .manual("Braid");
    if let Some(date) = date() {
        man = man.date(date);
    }
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
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

/// Day of the release, if the packager sets it: the same sources then give the same bytes
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn date() -> Option<String> {
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()?;
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%Y-%m-%d").to_string())
}

/// The command with its own arguments, each with the name of its value; those that all commands
/// take are among the options.
fn synopsis(command: &Command) -> Roff {
    let words = command.get_bin_name().unwrap_or(command.get_name());
    let mut line = vec![bold(words)];
    let shown = |argument: &&Arg| !argument.is_hide_set() && !argument.is_global_set();
    let (places, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|argument| argument.is_positional());
    let is_help = |argument: &Arg| {
        use ArgAction::{Help, HelpLong, HelpShort, Version};
        matches!(argument.get_action(), Help | HelpShort | HelpLong | Version)
    };
    for argument in options.into_iter().filter(|argument| !is_help(argument)).chain(places) {
        line.push(roman(" "));
        line.extend(used(argument));
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        let (before, after) = match command.is_subcommand_required_set() {
            true => (" ", ""),
            false => (" [", "]"),
        };
        line.extend([roman(before), italic("COMMAND"), roman(after)]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

/// `[--limit RATE]`, `NAME`, `[DISK...]`.
fn used(argument: &Arg) -> Vec<Inline> {
    let mut words = Vec::new();
    let name = match (argument.get_long(), argument.get_short()) {
        (Some(long), _) => Some(format!("--{long}")),
        (None, Some(short)) => Some(format!("-{short}")),
        (None, None) => None,
    };
    let takes_values = argument.get_action().takes_values();
    if let Some(name) = &name {
        words.push(bold(name));
    }
    if takes_values {
        let own = [argument.get_id().as_str().to_uppercase().into()];
        let values = argument.get_value_names().unwrap_or(&own);
        let least = argument.get_num_args().map_or(1, |count| count.min_values());
        let gap = match (name.is_some(), argument.is_require_equals_set()) {
            (false, _) => "",
            (true, true) if least == 0 => "[=",
            (true, true) => "=",
            (true, false) => " ",
        };
        words.push(roman(gap));
        for (index, value) in values.iter().enumerate() {
            words.push(roman(if index > 0 { " " } else { "" }));
            words.push(italic(value.as_str()));
        }
        words.push(roman(if gap == "[=" { "]" } else { "" }));
    }
    let many = argument.get_num_args().is_some_and(|count| count.max_values() > 1)
        || matches!(argument.get_action(), ArgAction::Append);
    words.push(roman(if takes_values && many { "..." } else { "" }));
    if !argument.is_required_set() {
        words.insert(0, roman("["));
        words.push(roman("]"));
    }
    words
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
        // Keep our line breaks.
        roff.control("PP", []);
        roff.control("nf", []);
        for line in rest.trim_matches('\n').lines() {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    }
    roff
}

/// The parent command, the subcommands, and the manual.
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
