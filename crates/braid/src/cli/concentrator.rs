mod add_home;
mod addresses;
mod init;

use super::failure::Failure;
use super::{Global, JsonFlag};
use braid_control::config::Endpoint;
use clap::{Args, Subcommand};
use ipnet::{Ipv4Net, Ipv6Net};

#[derive(Subcommand)]
pub enum ConcentratorCommand {
    /// Make keys and config, start, and print the line that lets a home in
    Init(Init),
    /// Let one more home in: prints its line
    AddHome(AddHome),
    /// Shut a home out
    RemoveHome(RemoveHome),
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid concentrator init --endpoint vpn.example.org:51900\n\nThe line that it prints goes to the home: braid home join LINE"
)]
pub struct Init {
    #[command(flatten)]
    _json: JsonFlag,
    /// Where homes reach this host, HOST:PORT; several are tried together
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
    /// Name of the first home
    #[arg(long, default_value = "home")]
    home: braid_control::config::Name,
    /// Write the files, but start nothing
    #[arg(long)]
    no_start: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator add-home cabin")]
pub struct AddHome {
    #[command(flatten)]
    _json: JsonFlag,
    /// The home's name
    name: braid_control::config::Name,
    /// Where homes reach this host, if no longer as `init` was told
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: Vec<Endpoint>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid concentrator remove-home cabin")]
pub struct RemoveHome {
    #[command(flatten)]
    _json: JsonFlag,
    /// The home's name
    name: String,
}

impl ConcentratorCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            ConcentratorCommand::Init(init) => init.run(global),
            ConcentratorCommand::AddHome(add) => add.run(global),
            ConcentratorCommand::RemoveHome(remove) => remove.run(global),
        }
    }
}
