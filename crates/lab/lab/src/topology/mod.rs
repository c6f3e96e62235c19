//! The lab's network: a home and a concentrator, each an unnamed network namespace, and the links
//! between them. It disappears with the process, even if that is killed.
//!
//! ```text
//!  home namespace                  |  concentrator namespace
//!  one device a link, with the     |  isp1, isp2, ... the providers' ends
//!  link's name; 192.168.(10+k).2 --+- 192.168.(10+k).1
//!                         (or NAT) |  lo: 203.0.113.1, 2001:db8:1::1
//! ```

mod address;
mod backend;
mod calibration;
mod command;
mod device_name;
mod ecmp;
mod error;
mod kernel_link;
mod mptcp;
mod netem;
mod routing;

pub use address::{CONCENTRATOR_V4, CONCENTRATOR_V6, HOME_V4, HOME_V6, LinkAddresses};
pub use backend::{Backend, InKernel};
pub use calibration::{CALIBRATION_PARTS, Calibration, LinkAccuracy, calibrate};
pub use ecmp::EcmpSetup;
pub use error::TopologyError;
pub use netem::has_netem;

use crate::emulator::{
    Emulator, LinkChange, LinkCounters, LinkDevice, LinkModel, LinkParts, NatAddresses,
};
use braid_linux::netns::{self, NetNs};
use braid_units::Rate;
use kernel_link::KernelLink;
use std::io;
use std::time::Duration;

/// Prepares this process for topologies: if it may not create network namespaces it enters a user
/// namespace first, as root there. Must be called while there is a single thread.
///
/// # Errors
/// User namespaces are forbidden, or `/dev/net/tun` can't be opened.
pub fn prepare_process() -> Result<(), TopologyError> {
    netns::enter_user_namespace().map_err(TopologyError::Namespace)?;
    LinkDevice::open("braid-probe")
        .map(drop)
        .map_err(|source| TopologyError::Device { link: "(a first try)".into(), source })
}

/// Options for building a topology.
#[derive(Clone, Debug, Default)]
pub struct TopologyOptions {
    /// The planned changes to links: they determine what can play each link.
    pub planned: Vec<(usize, LinkChange)>,
    /// Determines all random numbers of the emulation.
    pub seed: u64,
    /// Which links the kernel plays.
    pub in_kernel: InKernel,
}

/// The lab's network, up and running until it is dropped.
#[derive(Debug)]
pub struct Topology {
    // Dropped first: the devices must go before their namespaces.
    emulator: Emulator,
    links: Vec<TopologyLink>,
    home: NetNs,
    concentrator: NetNs,
}

/// A link of a topology.
#[derive(Debug)]
pub struct TopologyLink {
    model: LinkModel,
    device: String,
    provider_device: String,
    addresses: LinkAddresses,
    table: u32,
    backend: Backend,
    player: Player,
}

/// What carries the link's packets.
#[derive(Debug)]
enum Player {
    /// The emulator, as its link with this number.
    Emulator(usize),
    Kernel(Box<KernelLink>),
}

impl TopologyLink {
    /// The model that the link was built from.
    pub fn model(&self) -> &LinkModel {
        &self.model
    }
    /// The device at home: the link's name if the kernel accepts it.
    pub fn device(&self) -> &str {
        &self.device
    }
    /// The device at the provider's end, in the concentrator's namespace.
    pub fn provider_device(&self) -> &str {
        &self.provider_device
    }
    /// The addresses at both ends.
    pub fn addresses(&self) -> &LinkAddresses {
        &self.addresses
    }
    /// The home's routing table with this link's default route only.
    pub fn table(&self) -> u32 {
        self.table
    }
    /// What plays the link, and what reports should say about that.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }
}

impl Topology {
    /// Builds the namespaces, the links and the routes, all up.
    ///
    /// # Errors
    /// What is missing on this machine, and the command that failed.
    pub fn build(models: &[LinkModel], options: &TopologyOptions) -> Result<Self, TopologyError> {
        if models.is_empty() || models.len() > address::MAX_LINKS {
            return Err(TopologyError::LinkCount(models.len()));
        }
        let home = NetNs::new().map_err(TopologyError::Namespace)?;
        let concentrator = NetNs::new().map_err(TopologyError::Namespace)?;
        routing::set_sysctls(&home)?;
        routing::set_sysctls(&concentrator)?;

        let devices = device_name::device_names(models.iter().map(|model| model.name.as_str()));
        let mut emulated = Vec::new();
        let mut links = Vec::new();
        for (index, ((model, device), number)) in models.iter().zip(devices).zip(1u8..).enumerate()
        {
            let changes = options.planned.iter().filter(|(link, _)| *link == index);
            let backend =
                Backend::choose(model, changes.map(|(_, change)| change), options.in_kernel);
            let addresses = LinkAddresses::of(number);
            let provider_device = format!("isp{number}");
            let failed = |source| TopologyError::Device { link: model.name.clone(), source };
            let player = match backend {
                Backend::UserSpace { .. } => {
                    emulated.push(LinkParts {
                        model: model.clone(),
                        home: open_device(&home, &device).map_err(failed)?,
                        provider: open_device(&concentrator, &provider_device).map_err(failed)?,
                        nat: model.nat.then_some(NatAddresses {
                            private: addresses.home_v4,
                            public: addresses.public_v4,
                        }),
                    });
                    Player::Emulator(emulated.len() - 1)
                }
                Backend::Kernel { .. } => Player::Kernel(Box::new(
                    KernelLink::create(
                        &home,
                        &device,
                        &concentrator,
                        &provider_device,
                        model,
                        options.in_kernel,
                    )
                    .map_err(failed)?,
                )),
            };
            links.push(TopologyLink {
                model: model.clone(),
                device,
                provider_device,
                addresses,
                table: routing::FIRST_TABLE + u32::from(number),
                backend,
                player,
            });
        }
        let emulator = Emulator::start(emulated, options.seed).map_err(TopologyError::Emulator)?;
        let topology = Topology { emulator, links, home, concentrator };
        routing::set_up(&topology)?;
        for link in &topology.links {
            if let Player::Kernel(kernel) = &link.player {
                kernel.shape(&topology, link)?;
            }
        }
        Ok(topology)
    }

    /// The home's namespace.
    pub fn home(&self) -> &NetNs {
        &self.home
    }

    /// The concentrator's namespace.
    pub fn concentrator(&self) -> &NetNs {
        &self.concentrator
    }

    /// The links, as given to [`Topology::build`].
    pub fn links(&self) -> &[TopologyLink] {
        &self.links
    }

    /// Changes link number `link` (from 0); returns when that is done.
    ///
    /// # Errors
    /// There is no such link, or what plays it can't be changed like this.
    pub fn apply(&self, link: usize, change: &LinkChange) -> Result<(), TopologyError> {
        let target = self.links.get(link).ok_or(TopologyError::NoSuchLink(link))?;
        match &target.player {
            Player::Emulator(number) => {
                self.emulator.apply(*number, change.clone()).map_err(|error| {
                    TopologyError::Unsupported {
                        link: target.model.name.clone(),
                        problem: error.to_string(),
                    }
                })
            }
            Player::Kernel(kernel) => kernel.apply(self, target, change),
        }
    }

    /// Restarts every trace at its offset, so that consecutive runs have the same conditions.
    ///
    /// # Errors
    /// The emulator has stopped.
    pub fn restart_traces(&self) -> Result<(), TopologyError> {
        self.emulator.restart_traces().map_err(TopologyError::Emulator)
    }

    /// The counters of link number `link`; zeros if there is none. A kernel link only counts
    /// packets and bytes (as its devices do, with Ethernet headers), no drops.
    pub fn counters(&self, link: usize) -> LinkCounters {
        match self.links.get(link).map(|link| &link.player) {
            Some(Player::Emulator(number)) => self.emulator.counters(*number),
            Some(Player::Kernel(kernel)) => kernel.counters(),
            None => LinkCounters::default(),
        }
    }

    /// The CPU time used by the emulator, excluding the kernel's links.
    pub fn emulator_cpu_time(&self) -> Duration {
        self.emulator.cpu_time()
    }

    /// Makes the kernel's MPTCP use every link. Applications at home that open `IPPROTO_MPTCP`
    /// connections to the concentrator then use all of them.
    ///
    /// # Errors
    /// The kernel has no MPTCP, or there are more links than it can use (8).
    pub fn mptcp(&self) -> Result<(), TopologyError> {
        mptcp::set_up(self)
    }

    /// Spreads flows over all links by equal-cost multipath routes, by hash of
    /// addresses and ports.
    ///
    /// # Errors
    /// The kernel has no multipath routes, or no nftables where NAT is needed.
    pub fn ecmp(&self) -> Result<EcmpSetup, TopologyError> {
        ecmp::set_up(self)
    }

    /// The sums of all links' mean rates, towards the home and towards the concentrator;
    /// [`Rate::MAX`] if one is unlimited.
    pub fn capacity(&self) -> (Rate, Rate) {
        self.links.iter().fold((Rate::ZERO, Rate::ZERO), |(down, up), link| {
            (
                down.saturating_add(link.model.down.capacity.mean_rate()),
                up.saturating_add(link.model.up.capacity.mean_rate()),
            )
        })
    }
}

fn open_device(ns: &NetNs, name: &str) -> io::Result<LinkDevice> {
    ns.run(|| LinkDevice::open(name))?
}
