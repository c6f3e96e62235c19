mod add_home;
mod addresses;
mod drain;
#[cfg(feature = "fleet")]
mod fleet;
mod init;
mod limit;
mod list;
#[cfg(feature = "page")]
mod on_page;
mod overheard;
mod taken;

pub use addresses::{DEFAULT_PORT, public_endpoints};
pub use overheard::overheard;

use super::failure::Failure;
use super::{Global, JsonFlag};
use crate::daemon;
use braid_control::config::Endpoint;
use clap::{Args, Subcommand};
use ipnet::{Ipv4Net, Ipv6Net};
use std::time::Duration;

/// What the daemon's page uses of this.
#[cfg(feature = "page")]
pub const ON_PAGE: daemon::PageHomes = on_page::homes;
#[cfg(not(feature = "page"))]
pub const ON_PAGE: daemon::PageHomes = ();

#[derive(Subcommand)]
pub enum ConcentratorCommand {
    /// Create keys and config, start, and print the join line for the first home
    Init(Init),
    /// Let another home join: prints its join line
    AddHome(AddHome),
    /// List the homes, and those that have yet to join
    List(List),
    /// Make a new join line for a home; the router that uses the home now is shut out
    Renew(Renew),
    /// Revoke a join line that nobody has used
    Revoke(Revoke),
    /// Limit a home's rates
    Limit(Limit),
    /// Shut a home out
    RemoveHome(RemoveHome),
    /// Ask homes to move to their other concentrators, before this one is stopped
    Drain(Drain),
    /// Accept homes again
    Undrain(Undrain),
    /// Show the fleet: which concentrators are alive, and which homes they serve
    #[cfg(feature = "fleet")]
    Status(Status),
    /// Send a home of the fleet to another concentrator
    #[cfg(feature = "fleet")]
    MoveHome(MoveHome),
    /// Remove a concentrator that is gone for good from the fleet
    #[cfg(feature = "fleet")]
    Forget(Forget),
    /// Show the fleet (not in this build)
    #[cfg(not(feature = "fleet"))]
    Status(super::parts::Missing),
    /// Send a home of the fleet to another concentrator (not in this build)
    #[cfg(not(feature = "fleet"))]
    MoveHome(super::parts::Missing),
    /// Remove a concentrator that is gone for good from the fleet (not in this build)
    #[cfg(not(feature = "fleet"))]
    Forget(super::parts::Missing),
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid concentrator init --endpoint vpn.example.org:51900\n\nOn the home router, give it the line that this prints: braid home join LINE"
)]
pub struct Init {
    #[command(flatten)]
    _json: JsonFlag,
    /// Where homes reach this host, HOST:PORT; repeat for several, which are tried in parallel
    /// [default: this host's public addresses]
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: Vec<Endpoint>,
    /// UDP port to listen on [default: 51900, or the next free one]
    #[arg(long)]
    port: Option<u16>,
    /// Inner IPv4 network
    #[arg(long, default_value = "10.77.0.0/24")]
    network: Ipv4Net,
    /// Inner IPv6 network
    #[arg(long, default_value = "fd77:b1d::/64")]
    network6: Ipv6Net,
    /// Name of the first home [default: "home"; none in a fleet that has homes]
    #[arg(long)]
    home: Option<braid_control::config::Name>,
    /// How long the join line is valid; it works once
    #[arg(long, value_name = "TIME", default_value = VALID, value_parser = valid)]
    valid: Duration,
    /// Show the join line as a QR code, too (on standard error)
    #[arg(long)]
    qr: bool,
    /// Join a fleet, by its registry: etcds://HOST:2379,HOST:2379/braid/, etcd://…, or sqlite:FILE
    #[arg(long, value_name = "REGISTRY", requires = "name")]
    fleet: Option<String>,
    /// PEM file of the CA that signed etcd's certificates
    #[arg(long, value_name = "FILE", requires = "fleet")]
    ca_file: Option<std::path::PathBuf>,
    /// This concentrator's user name at etcd
    #[arg(long, value_name = "USER", requires_all = ["fleet", "etcd_password_file"])]
    etcd_user: Option<String>,
    /// File with that user's password, mode 0600
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<std::path::PathBuf>,
    /// This concentrator's name in the fleet
    #[arg(long, requires = "fleet")]
    name: Option<braid_control::config::Name>,
    /// Split homes' TCP connections at this end of the tunnel
    #[arg(long)]
    split_tcp: bool,
    /// Write the files, but start nothing
    #[arg(long)]
    no_start: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid concentrator add-home cabin\n  braid concentrator add-home cabin --qr   # for a telephone's camera\n  braid concentrator add-home cabin --address 10.77.0.5   # as another concentrator gave it"
)]
pub struct AddHome {
    #[command(flatten)]
    _json: JsonFlag,
    #[command(flatten)]
    line: LineForHome,
    /// Inner address of the home, in a network of the tunnel; repeat for IPv6 [default: the next
    /// free ones]
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<std::net::IpAddr>,
}

/// A join line to create.
#[derive(Args)]
pub struct LineForHome {
    /// The home's name
    pub name: braid_control::config::Name,
    /// Where homes reach this host, if not as given to `init`
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: Vec<Endpoint>,
    /// How long the join line is valid; it works once
    #[arg(long, value_name = "TIME", default_value = VALID, value_parser = valid)]
    pub valid: Duration,
    /// Show it as a QR code, too (on standard error)
    #[arg(long)]
    pub qr: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator list")]
pub struct List {
    #[command(flatten)]
    _json: JsonFlag,
}

#[derive(Args)]
#[command(
    after_help = "The home keeps its name and addresses.\n\nExample:\n  braid concentrator renew cabin"
)]
pub struct Renew {
    #[command(flatten)]
    _json: JsonFlag,
    #[command(flatten)]
    line: LineForHome,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator revoke cabin")]
pub struct Revoke {
    #[command(flatten)]
    _json: JsonFlag,
    /// The name of the home that was to join
    name: String,
}

/// Just long enough to carry a line to a router.
const VALID: &str = "24h";
/// A line that is found after years must be worth nothing.
const VALID_MOST: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long a join line is valid.
pub fn valid(text: &str) -> Result<Duration, String> {
    let time = braid_units::parse_duration(text).map_err(|error| error.to_string())?;
    match (Duration::from_secs(60)..=VALID_MOST).contains(&time) {
        true => Ok(time),
        false => Err("from 1min to 366d".to_owned()),
    }
}

#[derive(Args)]
#[command(
    after_help = "The limit applies at once, and is shared fairly among the home's flows.\n\nExamples:\n  braid concentrator limit cabin --down 50Mbit --up 10Mbit\n  braid concentrator limit cabin --none"
)]
pub struct Limit {
    #[command(flatten)]
    _json: JsonFlag,
    /// The home's name
    home: String,
    /// Highest rate towards the home, such as 50Mbit
    #[arg(long, value_name = "RATE")]
    down: Option<braid_units::Rate>,
    /// Highest rate from the home
    #[arg(long, value_name = "RATE")]
    up: Option<braid_units::Rate>,
    /// Remove the limits
    #[arg(long, conflicts_with_all = ["down", "up"])]
    none: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator remove-home cabin")]
pub struct RemoveHome {
    #[command(flatten)]
    _json: JsonFlag,
    /// The home's name
    name: String,
}

#[derive(Args)]
#[command(
    after_help = "Connections continue; a home without another concentrator stays. Draining lasts, also across restarts, until `undrain`.\n\nExamples:\n  braid concentrator drain --dry-run   # who would go, and who would stay\n  braid concentrator drain && braid restart && braid concentrator undrain"
)]
pub struct Drain {
    #[command(flatten)]
    _json: JsonFlag,
    /// Another concentrator of the fleet, by its name [default: this one]
    concentrator: Option<String>,
    /// Show which homes would move and which would stay, without changing anything
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for homes to move
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = braid_units::parse_duration)]
    within: Duration,
}

#[derive(Args)]
#[command(
    after_help = "Homes that prefer this concentrator come back at once.\n\nExample:\n  braid concentrator undrain"
)]
pub struct Undrain {
    #[command(flatten)]
    _json: JsonFlag,
    /// Another concentrator of the fleet, by its name [default: this one]
    concentrator: Option<String>,
    /// Show what would be changed without changing anything
    #[arg(long)]
    dry_run: bool,
}

#[cfg(feature = "fleet")]
#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator status")]
pub struct Status {
    #[command(flatten)]
    _json: JsonFlag,
}

#[cfg(feature = "fleet")]
#[derive(Args)]
#[command(
    after_help = "Connections continue if the home's addresses move with it.\n\nExamples:\n  braid concentrator move-home cabin vpn2\n  braid concentrator move-home cabin --to-any"
)]
pub struct MoveHome {
    #[command(flatten)]
    _json: JsonFlag,
    /// The home's name
    home: String,
    /// The concentrator's name in the fleet
    concentrator: Option<String>,
    /// Let the fleet choose again
    #[arg(long, conflicts_with = "concentrator")]
    to_any: bool,
}

#[cfg(feature = "fleet")]
#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator forget vpn3 --dry-run")]
pub struct Forget {
    #[command(flatten)]
    _json: JsonFlag,
    /// The concentrator's name in the fleet
    concentrator: String,
    /// Show what would be changed without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl ConcentratorCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            ConcentratorCommand::Init(init) => init.run(global),
            ConcentratorCommand::AddHome(add) => add.run(global),
            ConcentratorCommand::List(list) => list.run(global),
            ConcentratorCommand::Renew(renew) => renew.run(global),
            ConcentratorCommand::Revoke(revoke) => revoke.run(global),
            ConcentratorCommand::Limit(limit) => limit.run(global),
            ConcentratorCommand::RemoveHome(remove) => remove.run(global),
            ConcentratorCommand::Drain(drain) => drain.run(global),
            ConcentratorCommand::Undrain(undrain) => undrain.run(global),
            #[cfg(feature = "fleet")]
            ConcentratorCommand::Status(status) => status.run(global),
            #[cfg(feature = "fleet")]
            ConcentratorCommand::MoveHome(home) => home.run(global),
            #[cfg(feature = "fleet")]
            ConcentratorCommand::Forget(forget) => forget.run(global),
            #[cfg(not(feature = "fleet"))]
            ConcentratorCommand::Status(missing)
            | ConcentratorCommand::MoveHome(missing)
            | ConcentratorCommand::Forget(missing) => missing.run("fleet"),
        }
    }
}
