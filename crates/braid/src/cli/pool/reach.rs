use crate::cli::failure::Failure;
use braid_replica::listener::Key;
use braid_replica::replicate::Connector;
use clap::Args;
use std::path::PathBuf;

/// How another computer is reached.
#[derive(Args)]
pub struct Reach {
    /// Remote shell with its arguments, called with the host and a command
    /// [default: ssh with keepalives]
    #[arg(long, value_name = "COMMAND")]
    rsh: Option<String>,
    /// How braid is called at the other end
    #[arg(long, default_value = "braid", value_name = "PATH")]
    remote_braid: String,
    /// File with the key of a listener (tcp://)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Reach {
    /// As the library wants it.
    pub fn connector(&self) -> Result<Connector, Failure> {
        let usual = Connector::default();
        let shell = match &self.rsh {
            Some(command) => command.split_whitespace().map(str::to_owned).collect(),
            None => usual.shell,
        };
        Ok(Connector { shell, braid: self.remote_braid.clone(), key: self.key()? })
    }

    /// The listener's key, if one is named.
    pub fn key(&self) -> Result<Option<Key>, Failure> {
        Ok(self.key.as_deref().map(Key::load).transpose()?)
    }
}
