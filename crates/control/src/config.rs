//! The TOML config, with keys like WireGuard's, parsed into precise types. Unknown keys and
//! contradictions are errors, and all of them are reported at once.

mod alert;
mod contradiction;
mod credential;
mod diagnostic;
mod edit;
mod engine;
mod fleet;
mod group;
mod history;
mod interface;
mod key_file;
mod keyword;
mod link;
mod link_match;
mod name;
mod network;
mod path;
mod peer;
mod pool;
mod quota;
mod read;
mod routing;
mod rule;
mod secret;
mod section;
mod split_tcp;
mod suggest;
#[cfg(test)]
mod tests;
mod traffic;
mod transport;
mod ui;
mod upkeep;

pub use braid_alert::Alert;
pub use diagnostic::{ConfigErrors, Diagnostic};
pub use edit::{ConfigEditor, EditError, JoinedAnew, LinkChange, NewRule, PeerLine};
pub use engine::{MptcpProxy, ProxyEnd, Watch};
pub use fleet::{Etcd, Fleet, Registry};
pub use group::{GivenEgress, GroupConfig};
pub use history::History;
pub use interface::{CertificateFiles, Interface, Layer, Mode, Workers, XorHash};
pub use key_file::{KeyFile, KeyFileError};
pub use keyword::UnknownWord;
pub use link::{Cap, Link, LinkBinding};
pub use link_match::{LinkKind, LinkMatch, UsbId, UsbIdError};
pub use name::{DeviceName, Name, NameError};
pub use network::{Endpoint, EndpointError, Host, Prefix, PrefixError};
pub use peer::{Enrolment, Peer};
pub use pool::PoolsConfig;
pub use quota::{Quota, QuotaPeriod};
pub use routing::{ForwardPort, LinkMarks, PublicPrefix, Routing, WhenConcentratorGone};
pub use rule::{Action, Class, Direct, Otherwise, Priority, Redundancy, Rule, Treatment};
pub use secret::{
    SecretError, read_enrolment_key, read_preshared_key, read_private_key, write_secret,
};
pub use split_tcp::SplitTcp;
pub use suggest::closest;
pub use traffic::{
    Cgroup, Country, Day, Destinations, Device, Dscp, Hours, PortRange, Protocol, SystemNumber,
    Traffic,
};
pub use transport::{Proxy, ProxyError, Transport, TransportChoice};
pub use ui::{UI_PORT, Ui, UiCertificate};

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where `braid` looks for its config by default.
pub const DEFAULT_CONFIG: &str = "/etc/braid/braid.toml";

/// A config of either kind, as `interface.engine` says.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyConfig {
    /// Of Braid's own tunnel.
    Tunnel(Box<Config>),
    /// Of a group of links that an engine of the kernel joins.
    Group(Box<GroupConfig>),
}

impl AnyConfig {
    /// Reads and checks `file`.
    ///
    /// # Errors
    /// All that is wrong in it, each with its line; that it can't be read is at line 0.
    pub fn load(file: &Path) -> Result<AnyConfig, ConfigErrors> {
        AnyConfig::parse(&read_text(file)?, file)
    }

    /// Reads and checks `text`; `file` is named in errors and is the base of
    /// relative paths.
    ///
    /// # Errors
    /// All that is wrong in it, each with its line.
    pub fn parse(text: &str, file: &Path) -> Result<AnyConfig, ConfigErrors> {
        match group::asked_for(text).is_some() {
            true => Ok(AnyConfig::Group(Box::new(GroupConfig::parse(text, file)?))),
            false => Ok(AnyConfig::Tunnel(Box::new(Config::parse(text, file)?))),
        }
    }

    /// The file it was read from.
    pub fn file(&self) -> &Path {
        match self {
            AnyConfig::Tunnel(config) => &config.file,
            AnyConfig::Group(config) => &config.file,
        }
    }

    /// The control socket's path.
    pub fn control(&self) -> &Path {
        match self {
            AnyConfig::Tunnel(config) => &config.interface.control,
            AnyConfig::Group(config) => &config.control,
        }
    }

    /// The name of the tunnel or group.
    pub fn name(&self) -> &str {
        match self {
            AnyConfig::Tunnel(config) => config.interface.name.as_str(),
            AnyConfig::Group(config) => config.group.name.as_str(),
        }
    }

    /// Where its journal and logs are.
    pub fn state_dir(&self) -> &Path {
        match self {
            AnyConfig::Tunnel(config) => &config.interface.state_dir,
            AnyConfig::Group(config) => &config.state_dir,
        }
    }
}

/// A config of a tunnel, without contradictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file it was read from; relative paths inside are relative to it.
    pub file: PathBuf,
    /// This end of the tunnel.
    pub interface: Interface,
    /// Where some traffic goes; the first match applies.
    pub rules: Vec<Rule>,
    /// Deprecated settings that still work.
    pub advice: Vec<Diagnostic>,
    /// What the tunnel may send over (home).
    pub links: Vec<Link>,
    /// The other ends.
    pub peers: Vec<Peer>,
    /// What is set in the host's routing, firewall and NAT.
    pub routing: Routing,
    /// Settings of the history.
    pub history: History,
    /// The page for browsers.
    pub ui: Ui,
    /// Notifications of events.
    pub alerts: Vec<Alert>,
    /// How TCP connections are split, if they are.
    pub split_tcp: Option<SplitTcp>,
    /// The fleet that this concentrator is in, if any.
    pub fleet: Option<Fleet>,
}

impl Config {
    /// Reads and checks `file`.
    ///
    /// # Errors
    /// All errors, each with its line (0 if the file can't be read). A config for a kernel engine
    /// is an error here.
    pub fn load(file: &Path) -> Result<Config, ConfigErrors> {
        Config::parse(&read_text(file)?, file)
    }

    /// Reads and checks `text`; `file` is named in errors and is the base of
    /// relative paths.
    ///
    /// # Errors
    /// All errors, each with its line. A config for a kernel engine is an error here.
    pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigErrors> {
        if let Some(line) = group::asked_for(text) {
            let what = "interface.engine is a kernel engine: this is for Braid's own tunnel";
            let hint = "`braid up`, `down`, `status`, `export` and `link plan` work with both";
            return Err(ConfigErrors {
                file: file.to_owned(),
                errors: vec![Diagnostic { line, what: what.into(), hint: Some(hint.into()) }],
            });
        }
        read::read(text, file)
    }

    /// The peer of this name.
    pub fn peer(&self, name: &str) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.name.as_str() == name)
    }

    /// Whether it contains a secret itself, rather than in a file that it names: a proxy's
    /// password.
    fn has_secrets(&self) -> bool {
        let proxies = self.links.iter().filter_map(|link| link.proxy.as_ref());
        proxies.into_iter().any(|proxy| proxy.credentials.is_some())
    }

    /// The mode of its file, if everybody may read a secret in it.
    pub fn exposed_mode(&self) -> Option<u32> {
        let mode = std::fs::metadata(&self.file).ok()?.mode() & 0o777;
        (self.has_secrets() && mode & braid_durable::OTHERS != 0).then_some(mode)
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name.as_str() == name)
    }
}

/// Maximum size of a config; ten thousand rules need a tenth of that.
const LARGEST_BYTES: u64 = 16 << 20;

/// The text of a config, whatever is wrong in it.
///
/// # Errors
/// The file can't be read or is far too large, at line 0.
pub fn read_text(file: &Path) -> Result<String, ConfigErrors> {
    braid_durable::read_text(file, LARGEST_BYTES).map_err(|error| ConfigErrors {
        file: file.to_owned(),
        errors: vec![Diagnostic {
            line: 0,
            what: format!("can't read the config: {error}"),
            hint: (error.kind() == io::ErrorKind::NotFound)
                .then(|| "`braid home join` or `braid concentrator init` writes one".to_owned()),
        }],
    })
}
