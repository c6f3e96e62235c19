use crate::homes::Homes;
use crate::pools::PoolsLook;
use crate::reports::Reports;
use crate::snapshots::Snapshots;
use braid_control::config::LinkChange;
use braid_control::finding::Finding;
use braid_control::measured::{MeasureStatus, NewMeasure};
use braid_control::request::Refusal;
use braid_control::status::Status;
use braid_control::traffic::TrafficStatus;
use braid_history::Recorder;
use std::net::IpAddr;
use std::time::Duration;

/// What the page shows and may change. Its methods may block for a moment.
pub trait Shown: Send + Sync + 'static {
    /// The tunnel's status, if there is one.
    fn status(&self) -> Option<Status>;

    /// Who uses the tunnel, if there is one.
    fn traffic(&self) -> Option<TrafficStatus> {
        None
    }

    /// The doctor's last findings about the tunnel; if they are old, a new examination is started.
    fn examined(&self) -> Option<Examined> {
        None
    }

    /// The progress of measuring the links, and the last results.
    fn measuring(&self) -> MeasureStatus {
        MeasureStatus::default()
    }

    /// Starts measuring the links.
    ///
    /// # Errors
    /// Why that isn't possible.
    fn measure(&self, _wish: &NewMeasure) -> Result<(), Refusal> {
        Err(Refusal::NotFound("no tunnel is running here".into()))
    }

    /// The history.
    fn history(&self) -> Option<&Recorder>;

    /// The pools, as last seen.
    fn pools(&self) -> Option<PoolsLook>;

    /// Folders with snapshots, if the page may read them.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    /// Reports of the lab, if there is a folder with them.
    fn reports(&self) -> Option<&dyn Reports> {
        None
    }

    /// The homes, if this host is a concentrator that may change them.
    fn homes(&self) -> Option<&dyn Homes> {
        None
    }

    /// A link's current device and addresses.
    fn line(&self, _name: &str) -> Option<Line> {
        None
    }

    /// The configuration of the link with this name.
    fn link(&self, name: &str) -> Option<LinkWish>;

    /// Changes a link until the tunnel is restarted or its config is reloaded.
    ///
    /// # Errors
    /// Why that isn't possible.
    fn set_link(&self, name: &str, change: LinkChange) -> Result<(), Refusal>;
}

/// The doctor's findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examined {
    /// Worst first; `None` until the first examination has ended.
    pub findings: Option<Vec<Finding>>,
    /// When they were found, Unix seconds.
    pub looked_unix: i64,
}

/// A link's device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its name.
    pub device: String,
    /// A card's speed, Mbit/s, if it reports one.
    pub speed_mbps: Option<u32>,
    /// Whether a card runs at full duplex, if it reports that.
    pub full_duplex: Option<bool>,
    /// Its kind, unless it is a network card: `tun`, `ppp`, …
    pub kind: Option<String>,
    /// Whether it has a carrier: a cable or radio link.
    pub carrier: bool,
    /// MTU, bytes.
    pub mtu: u32,
    /// Its addresses, except link-local ones.
    pub addresses: Vec<LineAddress>,
    /// Its routers.
    pub routers: Vec<IpAddr>,
}

/// An address of a link's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAddress {
    /// The address.
    pub address: IpAddr,
    /// Length of its network's prefix, bits.
    pub prefix_length: u8,
    /// Remaining lifetime, if it is from DHCP or a router advertisement.
    pub valid_for: Option<Duration>,
}

/// A link's settings; texts as in the config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkWish {
    /// Lower tiers are filled first, or preferred, in modes that have tiers.
    pub tier: u8,
    /// Whether it is used only when nothing else works.
    pub standby: bool,
    /// Rate limit towards this host.
    pub cap_down: Option<String>,
    /// Rate limit from this host.
    pub cap_up: Option<String>,
    /// `20GB/month`, `1GB/day`.
    pub quota: Option<String>,
}

impl LinkWish {
    /// The part of a change that differs: the config may say more than a form does, such as on
    /// which day a quota restarts.
    pub fn news(&self, change: LinkChange) -> LinkChange {
        let text = |new: Option<String>, old: &Option<String>| {
            new.filter(|new| *new != old.as_deref().unwrap_or("none"))
        };
        LinkChange {
            tier: change.tier.filter(|tier| *tier != self.tier),
            standby: change.standby.filter(|standby| *standby != self.standby),
            cap_down: text(change.cap_down, &self.cap_down),
            cap_up: text(change.cap_up, &self.cap_up),
            quota: text(change.quota, &self.quota),
            ..change
        }
    }
}
