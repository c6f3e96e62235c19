//! The commands.

mod alert;
pub mod concentrator;
mod config;
mod config_check;
mod config_uci;
mod confirm;
mod doctor;
mod down;
mod events;
mod explain;
mod export;
pub mod failure;
mod first_steps;
mod free_file;
#[cfg(feature = "generate")]
mod generate;
mod group_table;
mod history;
mod home;
mod keys;
mod line_source;
mod link;
#[cfg(feature = "manual")]
mod manual;
mod manual_pages;
mod mode;
mod offered;
mod openwrt;
mod parts;
#[cfg(feature = "pools")]
mod pool;
#[cfg(any(feature = "manual", feature = "pools"))]
mod progress;
#[cfg_attr(
    not(any(feature = "manual", feature = "pools")),
    allow(dead_code, reason = "what takes long is theirs")
)]
mod progress_wanted;
mod reload;
mod restart;
mod rule;
mod service;
mod status;
mod status_table;
#[cfg_attr(
    not(any(feature = "manual", feature = "pools")),
    allow(dead_code, reason = "what takes long is theirs")
)]
mod terminal_line;
#[cfg(any(feature = "manual", feature = "pools"))]
mod time_left;
mod traffic;
#[cfg(feature = "page")]
mod ui;
mod up;
mod uplinks;
mod view;

pub use failure::Failure;

use braid_control::client::{Client, ClientError};
use braid_control::config::{AnyConfig, Config, DEFAULT_CONFIG};
use braid_control::status::Status;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs what the command line asks for.
pub fn run() -> ExitCode {
    let (matches, cli) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return refuse(error),
    };
    let options = Global { args: cli.global, json: asks_for_json(&matches) };
    if options.json {
        progress_wanted::not_any_more();
    }
    let done = match cli.command {
        Some(command) => command.run(&options),
        None => first_steps::tell(&options).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(options.json),
    }
}

fn parse() -> Result<(ArgMatches, Cli), clap::Error> {
    let matches = command_line().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok((matches, cli))
}

/// All commands; each one's help refers to the manual.
fn command_line() -> clap::Command {
    taking_negative_numbers(manual_pages::linked(Cli::command()))
}

/// Lets options accept `-5` like any other value, so that they report themselves what they accept.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let with_value =
        |argument: &clap::Arg| !argument.is_positional() && argument.get_action().takes_values();
    command
        .mut_args(|argument| match with_value(&argument) {
            true => argument.allow_negative_numbers(true),
            false => argument,
        })
        .mut_subcommands(taking_negative_numbers)
}

/// Exits with the error of the command line, or with the requested help.
fn refuse(mut error: clap::Error) -> ExitCode {
    tell_of_minus(&mut error);
    let given: Vec<_> = std::env::args_os().skip(1).collect();
    let has = |word: &str| given.iter().any(|argument| argument == word);
    // The flags of an invalid command line aren't known; for `lab` it isn't a flag.
    if !error.use_stderr() || !has("--json") || has("lab") {
        error.exit();
    }
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or(&text);
    let what = what.strip_prefix("error: ").unwrap_or(what);
    Failure::new(failure::FailureKind::Usage, what).report(true)
}

/// Improves the error for values such as `-5Mbit`, which aren't meant as options.
fn tell_of_minus(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    if given.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let what = "values can't be negative: leave out the minus".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![what]));
    }
}

#[derive(Parser)]
#[command(
    name = "braid",
    version,
    long_version = parts::long_version(),
    about = "Many weak strands, one strong line: a multipath tunnel over all your links",
    after_help = EXAMPLES_AND_EXIT_CODES,
    propagate_version = true
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES_AND_EXIT_CODES: &str = "\
Examples:
  braid concentrator init      # on the server with a public address
  braid home join LINE         # on the router, with the line that `add-home` printed
  braid status
  braid doctor

Exit codes:
  0  done
  1  failed; the message says why
  2  wrong use of the command line
  3  the config, a key file or a join line has errors
  4  no tunnel is running
  5  permission denied
  6  the tunnel is running already
  7  declined at the prompt
  10, 11, 12  pools that need attention, are degraded, have failed
  141  the reader of the output went away";

#[derive(Args, Clone, Debug)]
struct GlobalArgs {
    /// Config file, or NAME for /etc/braid/NAME.toml [default: /etc/braid/braid.toml]
    #[arg(short, long, global = true, value_name = "FILE|NAME")]
    config: Option<PathBuf>,
    /// Control socket, if not the one the config names
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Log level: error, warn, info, debug, trace, or filters such as braid=debug
    #[arg(long, global = true, env = "BRAID_LOG", default_value = "warn", value_name = "LEVEL")]
    log: String,
    /// Log as JSON lines
    #[arg(long, global = true, env = "BRAID_LOG_JSON", value_parser = clap::builder::FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    log_json: bool,
}

/// For every command but `lab`, whose `--json` names a file.
#[derive(Args, Clone, Copy, Debug)]
struct JsonFlag {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Settings for all commands.
pub struct Global {
    args: GlobalArgs,
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Generate a private key
    Keygen(keys::Keygen),
    /// Read a private key, print its public key
    Pubkey(keys::Pubkey),
    /// Work with config files
    #[command(
        subcommand,
        after_help = "Examples:\n  braid config check\n  braid config to-uci > /etc/config/braid"
    )]
    Config(config::ConfigCommand),
    /// Bring the tunnel up
    Up(up::Up),
    /// Bring the tunnel down and undo everything it set up on this host
    Down(down::Down),
    /// Apply changes to the config's links, peers, routing and mode without a restart
    Reload(reload::Reload),
    /// Switch to the program that is installed now, as after an upgrade, without dropping
    /// connections
    Restart(restart::Restart),
    /// Show the state of the tunnel, its peers and its paths
    Status(status::StatusCommand),
    /// Show what the tunnel and its links carried, by hour, day or month
    History(history::History),
    /// Show which devices and connections use the tunnel now
    Traffic(traffic::Traffic),
    /// Show what happened
    Events(events::Events),
    /// Show what limits the tunnel, what is wrong and how to fix it
    Doctor(doctor::Doctor),
    /// List who is notified of events; send a test message
    #[command(subcommand, after_help = "Examples:\n  braid alert list\n  braid alert test")]
    Alert(alert::AlertCommand),
    /// Open the page in a browser; manage logins
    #[cfg(feature = "page")]
    Ui(ui::Ui),
    /// Add, remove, change, test or list links, also while the tunnel runs
    #[command(
        subcommand,
        after_help = "Examples:\n  braid link list\n  braid link add lte --interface wwan0 --quota 20GB/month\n  braid link set lte --standby true"
    )]
    Link(link::LinkCommand),
    /// List, add, remove or test rules: which traffic bypasses the tunnel or is blocked
    #[command(
        subcommand,
        after_help = "Examples:\n  braid rule add bank --domain bank.example --do direct\n  braid rule list\n  braid rule test bank.example:443"
    )]
    Rule(rule::RuleCommand),
    /// Show which rule matches a connection, why, and which link it leaves by
    Explain(explain::Explain),
    /// Export the set-up of a group of links for another tool
    Export(export::Export),
    /// Show or change how packets are spread over the links
    Mode(mode::ModeCommand),
    /// Set up a concentrator and manage the homes that may join
    #[command(
        subcommand,
        after_help = "Examples:\n  braid concentrator init\n  braid concentrator add-home cabin\n  braid concentrator list"
    )]
    Concentrator(concentrator::ConcentratorCommand),
    /// Set up this router as a home
    #[command(
        subcommand,
        after_help = "Examples:\n  braid home join -          # paste the line, press return"
    )]
    Home(home::HomeCommand),
    /// Plan, create, check, repair, snapshot and replicate pools of disks
    #[cfg(feature = "pools")]
    #[command(
        subcommand,
        after_help = "Examples:\n  braid pool plan --disk 4T:hdd --disk 4T:hdd\n  braid pool status\n  braid pool doctor"
    )]
    Pool(pool::PoolCommand),
    /// Make a searchable site from manuals, serve it, check it
    #[cfg(feature = "manual")]
    #[command(subcommand, after_help = "Examples:\n  braid manual build docs/guide --out site")]
    Manual(manual::ManualCommand),
    /// Emulate links, measure engines, report
    #[cfg(feature = "lab")]
    Lab(braid_lab::LabArgs),
    #[cfg(not(feature = "page"))]
    #[command(hide = true)]
    Ui(parts::Missing),
    #[cfg(not(feature = "pools"))]
    #[command(hide = true)]
    Pool(parts::Missing),
    #[cfg(not(feature = "manual"))]
    #[command(hide = true)]
    Manual(parts::Missing),
    #[cfg(not(feature = "lab"))]
    #[command(hide = true)]
    Lab(parts::Missing),
    #[cfg(feature = "generate")]
    #[command(hide = true)]
    Generate(generate::Generate),
}

impl Command {
    /// Whether it has private keys in memory; `up` handles that itself, as the process that it
    /// starts has them.
    fn has_keys(&self) -> bool {
        matches!(
            self,
            Command::Keygen(_)
                | Command::Pubkey(_)
                | Command::Config(_)
                | Command::Concentrator(_)
                | Command::Home(_)
                | Command::Ui(_)
        )
    }

    fn run(self, global: &Global) -> Result<ExitCode, Failure> {
        if self.has_keys() {
            let core = braid_linux::confinement::leave_no_core();
            core.map_err(|error| Failure::io("forbidding core dumps", &error))?;
        }
        match self {
            Command::Keygen(command) => command.run(global)?,
            Command::Pubkey(command) => command.run(global)?,
            Command::Config(command) => command.run(global)?,
            Command::Up(command) => command.run(global)?,
            Command::Down(command) => command.run(global)?,
            Command::Reload(command) => command.run(global)?,
            Command::Restart(command) => command.run(global)?,
            Command::Status(command) => command.run(global)?,
            Command::History(command) => command.run(global)?,
            Command::Traffic(command) => command.run(global)?,
            Command::Events(command) => command.run(global)?,
            Command::Doctor(command) => return command.run(global),
            Command::Alert(command) => command.run(global)?,
            #[cfg(feature = "page")]
            Command::Ui(command) => command.run(global)?,
            #[cfg(not(feature = "page"))]
            Command::Ui(command) => command.run("page")?,
            Command::Link(command) => command.run(global)?,
            Command::Rule(command) => command.run(global)?,
            Command::Explain(command) => command.run(global)?,
            Command::Export(command) => command.run(global)?,
            Command::Mode(command) => command.run(global)?,
            Command::Concentrator(command) => command.run(global)?,
            Command::Home(command) => command.run(global)?,
            #[cfg(feature = "manual")]
            Command::Manual(command) => command.run(global)?,
            #[cfg(not(feature = "manual"))]
            Command::Manual(command) => command.run("manual")?,
            #[cfg(feature = "generate")]
            Command::Generate(command) => command.run()?,
            #[cfg(feature = "pools")]
            Command::Pool(command) => return command.run(global),
            #[cfg(not(feature = "pools"))]
            Command::Pool(command) => command.run("pools")?,
            #[cfg(not(feature = "lab"))]
            Command::Lab(command) => command.run("lab")?,
            #[cfg(feature = "lab")]
            Command::Lab(lab) => return Ok(braid_lab::execute(lab.command)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Global {
    /// The config file to use.
    fn config_file(&self) -> PathBuf {
        match &self.args.config {
            None => PathBuf::from(DEFAULT_CONFIG),
            Some(given) => named_config(given),
        }
    }

    /// Whether none was named, and the default one doesn't exist.
    fn has_no_config(&self) -> bool {
        // Without access to the folder this can't be known.
        self.args.config.is_none() && !self.config_file().try_exists().unwrap_or(true)
    }

    /// The config, of a tunnel or of a group of links.
    fn load_any_config(&self) -> Result<AnyConfig, Failure> {
        Ok(AnyConfig::load(&self.config_file())?)
    }

    fn load_config(&self) -> Result<Config, Failure> {
        Ok(Config::load(&self.config_file())?)
    }

    /// A running tunnel of this config, although the file is gone or can't be parsed any more.
    fn running_without_config(&self) -> Option<Client> {
        if self.args.socket.is_some() || self.load_any_config().is_ok() {
            return None;
        }
        running_of(&self.config_file(), Path::new(RUN))
    }

    /// The running tunnel's control socket.
    fn client(&self) -> Result<Client, Failure> {
        match &self.args.socket {
            Some(socket) => Ok(Client::new(socket)),
            None => match self.load_any_config() {
                Ok(config) => Ok(Client::of(&config)),
                // A member of the control group needn't be able to read it.
                Err(error) => self.running_of_unreadable_config().ok_or(error),
            },
        }
    }

    /// `None` while no tunnel of the config is running.
    fn status_if_running(&self) -> Result<Option<Status>, Failure> {
        match self.client()?.status() {
            Ok(status) => Ok(Some(status)),
            Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn running_of_unreadable_config(&self) -> Option<Client> {
        let file = self.config_file();
        let error = std::fs::File::open(&file).err()?;
        let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        denied.then(|| running_of(&file, Path::new(RUN))).flatten()
    }

    /// Prints `value` as JSON, or otherwise `text`.
    fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let line = if self.json {
            serde_json::to_string_pretty(value).map_err(|e| Failure::failed(e.to_string()))?
        } else {
            text()
        };
        failure::print_line(&line)
    }
}

/// Default folder of control sockets.
const RUN: &str = "/run/braid";

/// The tunnel of this config among those with their control socket in `folder`.
fn running_of(file: &Path, folder: &Path) -> Option<Client> {
    let sockets = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let sockets = sockets.filter(|path| path.extension().is_some_and(|it| it == "sock"));
    let mut clients = sockets.map(|socket| Client::new(&socket).for_config(file));
    clients.find(|client| matches!(client.is_running(), Ok(true)))
}

/// Whether the innermost command has `--json`.
fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => asks_for_json(inner),
        None => matches!(matches.try_get_one::<bool>("json"), Ok(Some(true))),
    }
}

/// `home` means /etc/braid/home.toml; anything that looks like a path is one.
fn named_config(given: &Path) -> PathBuf {
    let text = given.to_string_lossy();
    if text.contains('/') || text.ends_with(".toml") || given.exists() {
        return given.to_owned();
    }
    Path::new("/etc/braid").join(format!("{text}.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Prints what its own command prints, so it has no `--json`.
    const PASSES_ON: &str = "braid lab vm";

    #[test]
    fn every_command_has_json_and_an_example_that_the_parser_takes() {
        // Wrapping would cut an example in two.
        let mut tree = command_line().term_width(0);
        tree.build();
        tree.clone().debug_assert();
        let mut leaves = 0;
        for_each_leaf(&mut tree, "braid", &mut |name, command| {
            leaves += 1;
            let help = command.render_help().to_string();
            let json = command.get_arguments().any(|argument| argument.get_id() == "json");
            assert!(json || name == PASSES_ON, "{name} has no --json");
            let examples: Vec<Vec<String>> = examples(&help).collect();
            assert!(
                examples.iter().any(|words| words.join(" ").starts_with(name)),
                "{name}: no example in\n{help}"
            );
            for words in examples {
                if let Err(error) = Cli::command().try_get_matches_from(&words) {
                    panic!("the help of {name} has an example that is wrong: {words:?}\n{error}");
                }
            }
        });
        assert!(leaves > 40, "only {leaves} commands were found");
    }

    #[test]
    fn the_parser_takes_every_command_of_the_guides() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guides = std::fs::read_dir(root.join("docs/guide")).unwrap();
        let mut files: Vec<_> = guides.map(|entry| entry.unwrap().path()).collect();
        files.push(root.join("README.md"));
        let mut commands = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for line in text.lines().filter(|line| line.starts_with("braid ")) {
                // A shortened line isn't a command.
                if line.contains('…') {
                    continue;
                }
                let words = shell_words(line);
                let words = words.into_iter().take_while(|word| !"|<>&&#".contains(&**word));
                commands += 1;
                if let Err(error) = Cli::command().try_get_matches_from(words) {
                    panic!("{}: {line}\n{error}", file.display());
                }
            }
        }
        assert!(commands > 20, "only {commands} were found");
    }

    /// Its table is the overview of all commands.
    #[test]
    fn the_readme_has_a_row_for_every_command() {
        let readme = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let (_, table) = readme.split_once("\n| command | does |\n").unwrap();
        let rows = table.lines().skip(1).take_while(|line| line.starts_with("| "));
        let named: BTreeSet<String> = rows.flat_map(commands_of_row).collect();
        let mut tree = command_line();
        tree.build();
        let mut lacking = Vec::new();
        for_each_leaf(&mut tree, "braid", &mut |name, _| {
            if !named.contains(name) {
                lacking.push(name.to_owned());
            }
        });
        assert!(lacking.is_empty(), "no row has {lacking:?}");
        for name in named {
            let words = name.split(' ').skip(1);
            let found =
                words.clone().try_fold(&tree, |command, word| command.find_subcommand(word));
            assert!(found.is_some(), "there is no {name}");
        }
    }

    /// A row's first cell: `braid a b`, `c`, `d e` are `braid a b`, `braid a c`, `braid a d e`.
    fn commands_of_row(row: &str) -> Vec<String> {
        let cell = row.split(" | ").next().unwrap_or_default();
        let mut group = Vec::new();
        let mut commands = Vec::new();
        for code in cell.split('`').skip(1).step_by(2) {
            let is_name =
                |word: &&str| word.bytes().all(|it| it.is_ascii_lowercase() || it == b'-');
            let words = code.split(' ').take_while(is_name).map(str::to_owned);
            let words: Vec<String> = match code.starts_with("braid ") {
                true => words.collect(),
                false => group.iter().cloned().chain(words).collect(),
            };
            commands.push(words.join(" "));
            group = words[..words.len() - 1].to_vec();
        }
        commands
    }

    fn for_each_leaf(
        command: &mut clap::Command,
        name: &str,
        visit: &mut impl FnMut(&str, &mut clap::Command),
    ) {
        if !command.has_subcommands() {
            visit(name, command);
            return;
        }
        let inner = command.get_subcommands_mut();
        for inner in inner.filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
            let name = format!("{name} {}", inner.get_name());
            for_each_leaf(inner, &name, visit);
        }
    }

    /// The command lines after "Example", as a shell would cut them; without
    /// what follows a pipe or redirection.
    fn examples(help: &str) -> impl Iterator<Item = Vec<String>> {
        let after = help.find("\nExample").map_or("", |at| &help[at..]);
        let lines = after.lines().map(|line| line.trim_start_matches("Example:").trim());
        lines.filter(|line| line.starts_with("braid ")).map(|line| {
            shell_words(line).into_iter().take_while(|word| !"|<>&&#".contains(&**word)).collect()
        })
    }

    fn shell_words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for character in line.chars() {
            match character {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                _ => word.push(character),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }
}
