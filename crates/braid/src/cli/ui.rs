#[cfg(feature = "pools")]
mod looker;
#[cfg(feature = "pools")]
mod names;
#[cfg(feature = "pools")]
mod serve;
#[cfg(feature = "pools")]
mod shelves;
#[cfg(feature = "backup")]
mod vaults;

use super::failure::{Failure, FailureKind, print_line, tell};
#[cfg(not(feature = "pools"))]
use super::parts;
use super::{Global, JsonFlag};
use braid_control::client::Client;
use braid_control::request::{LoginLink, UiRole};
use braid_page::access::password;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The page's socket on a host that has pools but no tunnel.
const POOLS_SOCKET: &str = "/run/braid/pools.ui.sock";
/// The file with its passwords.
const POOLS_PASSWORDS: &str = "/var/lib/braid/pools.ui.password";

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  braid ui\n  braid ui login --role reader"
)]
pub struct Ui {
    /// Of `braid ui` alone, which is `braid ui open`.
    #[command(flatten)]
    open: Open,
    #[command(subcommand)]
    command: Option<UiCommand>,
}

#[derive(Subcommand)]
enum UiCommand {
    /// Print the page's address with a login in it, and open it
    Open(Open),
    /// Print a link that logs in whoever opens it first
    Login(Login),
    /// Set the password of a role
    Password(Password),
    /// Serve the page on a host that has pools but no tunnel
    #[cfg(feature = "pools")]
    Serve(Box<serve::Serve>),
    #[cfg(not(feature = "pools"))]
    #[command(hide = true)]
    Serve(parts::Missing),
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid ui open")]
pub struct Open {
    #[command(flatten)]
    _json: JsonFlag,
    /// Only print it
    #[arg(long)]
    print: bool,
}

#[derive(Args)]
#[command(
    after_help = "The link is good once, for five minutes; the login lasts for 12 hours without a request, 7 days at most.\n\nExamples:\n  braid ui login\n  braid ui login --role reader --json | jq -r .url"
)]
pub struct Login {
    #[command(flatten)]
    _json: JsonFlag,
    /// What it allows
    #[arg(long, value_enum, default_value = "admin")]
    role: Role,
}

#[derive(Args)]
#[command(
    after_help = "Who is logged in is so no more when a password changes.\n\nExamples:\n  braid ui password\n  pass show router | braid ui password --role reader --stdin"
)]
pub struct Password {
    #[command(flatten)]
    _json: JsonFlag,
    /// Whose
    #[arg(long, value_enum, default_value = "admin")]
    role: Role,
    /// Read it from standard input, one line
    #[arg(long)]
    stdin: bool,
    /// File of the passwords' hashes [default: the config's, or else that of `braid ui serve`]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// May look
    Reader,
    /// May change things too
    Admin,
}

impl Role {
    fn of_page(self) -> UiRole {
        match self {
            Role::Reader => UiRole::Reader,
            Role::Admin => UiRole::Admin,
        }
    }
}

impl Ui {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command.unwrap_or(UiCommand::Open(self.open)) {
            UiCommand::Open(open) => open.run(global),
            UiCommand::Login(login) => login.run(global),
            UiCommand::Password(password) => password.run(global),
            #[cfg(feature = "pools")]
            UiCommand::Serve(serve) => serve.run(global),
            #[cfg(not(feature = "pools"))]
            UiCommand::Serve(serve) => serve.run("pools"),
        }
    }
}

impl Open {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let link = client(global)?.login_link(UiRole::Admin)?;
        global.print(&link, || link.url.clone())?;
        tell_of_certificate(&link);
        if self.print || global.json || !has_screen() {
            return Ok(());
        }
        // The browser outlives us, and must not write to our terminal.
        let opened = Command::new("xdg-open")
            .arg(&link.url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if opened.is_err() {
            tell("xdg-open is not installed: open the address yourself");
        }
        Ok(())
    }
}

/// The client for the tunnel, or on a host without one, for the pools' page.
fn client(global: &Global) -> Result<Client, Failure> {
    let pools = Path::new(POOLS_SOCKET);
    match global.args.socket.is_none() && global.has_no_config() && pools.exists() {
        true => Ok(Client::new(pools)),
        false => global.client(),
    }
}

/// Prints the fingerprint: a user who sees the same one in the browser is connected to this host.
fn tell_of_certificate(link: &LoginLink) {
    if let Some(certificate) = &link.certificate {
        tell(&format!(
            "the browser will warn about the certificate: its SHA-256 must be {certificate}"
        ));
    }
}

fn has_screen() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

impl Login {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let link = client(global)?.login_link(self.role.of_page())?;
        global.print(&link, || link.url.clone())?;
        tell_of_certificate(&link);
        Ok(())
    }
}

/// Maximum length of a password.
const LONGEST: u64 = 4096;

impl Password {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None if global.has_no_config() => PathBuf::from(POOLS_PASSWORDS),
            None => global.load_config()?.ui.password_file,
        };
        let given =
            if self.stdin || !std::io::stdin().is_terminal() { from_stdin()? } else { asked()? };
        let role = self.role.of_page();
        password::set(&file, role, &given).map_err(|error| match &error {
            password::PasswordError::Io { error: system, .. } => {
                Failure::io(&format!("writing {}", file.display()), system)
            }
            _ => Failure::failed(error.to_string()),
        })?;
        let value = json!({ "role": role.as_str(), "file": file.display().to_string() });
        match global.json {
            true => global.print(&value, String::new),
            false => print_line(&format!("the password of the {} is set", role.as_str())),
        }
    }
}

fn from_stdin() -> Result<String, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST)
        .read_line(&mut line)
        .map_err(|error| Failure::io("reading the password from standard input", &error))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn asked() -> Result<String, Failure> {
    let ask = |question| {
        rpassword::prompt_password(question)
            .map_err(|error| Failure::io("reading the password", &error))
    };
    let first = ask("New password: ")?;
    match ask("Repeat it: ")? == first {
        true => Ok(first),
        false => Err(Failure::new(FailureKind::Declined, "the two differ: nothing was changed")),
    }
}
