use super::Global;
use super::config_check::Check;
use super::config_uci::{FromUci, ToUci};
use super::failure::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check a config and the key files it names; print every error
    Check(Check),
    /// Print a config in OpenWrt's format (UCI), as in /etc/config/braid
    ToUci(ToUci),
    /// Print an OpenWrt config (UCI) as TOML, or write it to a file
    FromUci(FromUci),
}

impl ConfigCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            ConfigCommand::Check(command) => command.run(global),
            ConfigCommand::ToUci(command) => command.run(global),
            ConfigCommand::FromUci(command) => command.run(global),
        }
    }
}
