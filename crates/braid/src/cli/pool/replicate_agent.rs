use super::carry_out::StateFolders;
use crate::cli::failure::Failure;
use braid_replica::agent::{self, Allowed};
use braid_replica::wire::Connection;
use clap::Args;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// The other end of `braid pool replicate` and `verify`: speaks their protocol
/// on standard input and output.
#[derive(Args)]
pub struct ReplicateAgent {
    #[command(flatten)]
    place: StateFolders,
}

impl ReplicateAgent {
    pub fn run(&self) -> Result<(), Failure> {
        let own = |fd: io::Result<std::os::fd::OwnedFd>| {
            fd.map(File::from).map_err(|error| Failure::io("standard input or output", &error))
        };
        let incoming = own(io::stdin().as_fd().try_clone_to_owned())?;
        let out = own(io::stdout().as_fd().try_clone_to_owned())?;
        Ok(agent::serve(Connection::over(incoming, out), &Allowed::All, &self.place.register())?)
    }
}
