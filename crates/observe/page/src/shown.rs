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

/// What the page shows, and may change. Its methods may block for a moment.
pub trait Shown: Send + Sync + 'static {
    /// The tunnel, where there is one.
    fn status(&self) -> Option<Status>;

    /// Who uses the tunnel, where there is one.
    fn traffic(&self) -> Option<TrafficStatus> {
        None
    }

    /// What is wrong with the tunnel, as it was looked at last; where that is old it is begun to
    /// look again.
    fn examined(&self) -> Option<Examined> {
        None
    }

    /// How far the measurement of the links is, and what it found last.
    fn measuring(&self) -> MeasureStatus {
        MeasureStatus::default()
    }

    /// Begins to measure the links.
    ///
    /// # Errors
    /// Why that can't be.
    fn measure(&self, _wish: &NewMeasure) -> Result<(), Refusal> {
        Err(Refusal::NotFound("no tunnel is running here".into()))
    }

    /// What is known of the past.
    fn history(&self) -> Option<&Recorder>;

    /// The pools of disks, as they were looked at last.
    fn pools(&self) -> Option<PoolsLook>;

    /// Folders with snapshots, where the page may read them.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    /// Reports of the lab, where there is a folder of them.
    fn reports(&self) -> Option<&dyn Reports> {
        None
    }

    /// Who may come in, where that is for this host to say.
    fn homes(&self) -> Option<&dyn Homes> {
        None
    }

    /// The device and addresses that a link leaves by, looked at now.
    fn line(&self, _name: &str) -> Option<Line> {
        None
    }

    /// How a link is configured, where there is one of this name.
    fn link(&self, name: &str) -> Option<LinkWish>;

    /// Changes a link, until the tunnel is restarted or its config read again.
    ///
    /// # Errors
    /// Why that can't be.
    fn set_link(&self, name: &str, change: LinkChange) -> Result<(), Refusal>;
}

/// What the doctor found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examined {
    /// Worst first; none before the first look has ended.
    pub findings: Option<Vec<Finding>>,
    /// When that was, Unix seconds.
    pub looked_unix: i64,
}

/// What a link leaves by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its device.
    pub device: String,
    /// A card's, Mbit/s, where it knows.
    pub speed_mbps: Option<u32>,
    /// A card's, where it knows.
    pub full_duplex: Option<bool>,
    /// Of which kind it is, where it is no card: `tun`, `ppp`, …
    pub kind: Option<String>,
    /// There is a cable, or a radio.
    pub carrier: bool,
    /// Bytes.
    pub mtu: u32,
    /// Its addresses, without those that count on the link alone.
    pub addresses: Vec<LineAddress>,
    /// The routers by which it leaves.
    pub routers: Vec<IpAddr>,
}

/// An address of a link's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAddress {
    /// It.
    pub address: IpAddr,
    /// Of its network, bits.
    pub prefix_length: u8,
    /// From DHCP or a router's advertisement, and valid for so long still.
    pub valid_for: Option<Duration>,
}

/// What is asked of a link; texts as in the config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkWish {
    /// Lower ones are filled first, or preferred, in modes that have tiers.
    pub tier: u8,
    /// Only when nothing else works.
    pub standby: bool,
    /// Never faster towards this host.
    pub cap_down: Option<String>,
    /// Never faster from this host.
    pub cap_up: Option<String>,
    /// `20GB/month`, `1GB/day`.
    pub quota: Option<String>,
}

impl LinkWish {
    /// Of a change what isn't so already: the config may say more of it than a form does,
    /// such as on which day a quota begins anew.
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
