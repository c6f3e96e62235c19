//! The links as the core knows them: by number, one for each transport, with tiers and quotas.

use super::quota::Quota;
use super::{order, translate};
use braid_control::config::{Link, Name, QuotaPeriod, Transport};
use braid_control::quota_file::{QuotaCounter, QuotaCounters};
use braid_dataplane::{Handle, Report, Stopped};
use braid_linux::udp::Family;
use braid_tunnel::{Change as Core, LinkConfig, LinkId};
use braid_units::ByteSize;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Listening sockets are links of their own, numbered from here...
pub(super) const FIRST_LISTENING: u16 = 0x8000;
/// ...and those where homes connect by TLS from here.
pub(super) const FIRST_LISTENING_TLS: u16 = LinkId::FIRST_REPAIRED;
/// Links that leave by TLS.
const FIRST_LEAVING_TLS: u16 = 0xe000;

#[derive(Default)]
pub(super) struct Links {
    links: BTreeMap<Name, BridgedLink>,
    /// Numbers stay assigned to names: a link that returns continues with its path.
    numbers: BTreeMap<(Name, Transport), LinkId>,
    /// Bytes of each link's paths when they were last added to its quota. A link that returns
    /// continues with its paths' counters.
    counted: BTreeMap<LinkId, u64>,
}

pub(super) struct BridgedLink {
    /// For the core, each transport is a link.
    pub(super) ids: BTreeMap<Transport, LinkId>,
    pub(super) link: Link,
    /// Its tier, considering its price.
    pub(super) tier: u8,
    pub(super) quota: Option<Quota>,
    pub(super) exhausted: bool,
    /// Largest IP packet that its device takes, bytes.
    pub(super) device_mtu: u16,
}

/// The end of the quota period that contains this moment (both Unix seconds).
pub fn period_end(period: QuotaPeriod, at: i64) -> i64 {
    translate::period(period).end(at)
}

impl Links {
    pub(super) fn iter(&self) -> impl Iterator<Item = &BridgedLink> {
        self.links.values()
    }

    /// The link that has this number.
    pub(super) fn name_of(&self, id: LinkId) -> Option<&Name> {
        let has = |link: &&BridgedLink| link.ids.values().any(|own| *own == id);
        self.links.values().find(has).map(|link| &link.link.name)
    }

    pub(super) fn add(
        &mut self,
        link: Link,
        used: Option<QuotaCounter>,
        plane: &Handle,
    ) -> Result<(), Stopped> {
        let ids = BTreeMap::from([(Transport::Udp, self.number(&link.name, Transport::Udp))]);
        let mut quota = link.quota.as_ref().map(translate::quota);
        if let (Some(quota), Some(used)) = (&mut quota, used) {
            quota.restore(ByteSize::from_bytes(used.used_bytes), used.period_start_unix);
        }
        let tier = link.tier;
        let known = BridgedLink { ids, link, tier, quota, exhausted: false, device_mtu: 1500 };
        self.links.insert(known.link.name.clone(), known);
        self.order(plane)
    }

    pub(super) fn set(&mut self, link: Link, plane: &Handle) -> Result<(), Stopped> {
        let Some(known) = self.links.get_mut(&link.name) else { return Ok(()) };
        match (&mut known.quota, &link.quota) {
            (Some(quota), Some(new)) => {
                quota.change(new.bytes, translate::period(new.period), unix_seconds());
            }
            (quota, new) => *quota = new.as_ref().map(translate::quota),
        }
        let now = unix_seconds();
        known.exhausted = known.quota.as_ref().is_some_and(|q| q.exhausted(now));
        known.link = link;
        known.set(plane)?;
        self.order(plane)
    }

    pub(super) fn remove(&mut self, name: &Name, plane: &Handle) -> Result<(), Stopped> {
        let Some(link) = self.links.remove(name) else { return Ok(()) };
        for id in link.ids.into_values() {
            plane.change(Core::RemoveLink(id))?;
        }
        self.order(plane)
    }

    /// A link's price may change the order of others.
    fn order(&mut self, plane: &Handle) -> Result<(), Stopped> {
        let links: Vec<&Link> = self.links.values().map(|known| &known.link).collect();
        let tiers = order::tiers(&links);
        for (known, tier) in self.links.values_mut().zip(tiers) {
            if std::mem::replace(&mut known.tier, tier) != tier {
                known.set(plane)?;
            }
        }
        Ok(())
    }

    /// Gives a link a transport; returns what to attach its socket to. `None` if there is no such
    /// link.
    pub(super) fn attach(
        &mut self,
        name: &Name,
        transport: Transport,
        device_mtu: Option<u32>,
    ) -> Option<(LinkId, LinkConfig)> {
        let id = self.number(name, transport);
        let known = self.links.get_mut(name)?;
        known.ids.insert(transport, id);
        let mtu = device_mtu.unwrap_or(1500).clamp(1280, u32::from(u16::MAX));
        known.device_mtu = mtu as u16;
        Some((id, known.config()))
    }

    pub(super) fn detach(
        &self,
        name: &Name,
        family: Family,
        plane: &Handle,
    ) -> Result<(), Stopped> {
        let Some(known) = self.links.get(name) else { return Ok(()) };
        tracing::info!(link = name.as_str(), "link away");
        match known.ids.get(&Transport::Udp) {
            Some(&id) => plane.detach(id, family),
            None => Ok(()),
        }
    }

    pub(super) fn close(
        &mut self,
        name: &Name,
        transport: Transport,
        plane: &Handle,
    ) -> Result<(), Stopped> {
        match self.links.get_mut(name).and_then(|known| known.ids.remove(&transport)) {
            Some(id) => plane.change(Core::RemoveLink(id)),
            None => Ok(()),
        }
    }

    fn number(&mut self, link: &Name, transport: Transport) -> LinkId {
        let next = self.numbers.len() as u16;
        let next = match transport {
            Transport::Tls => LinkId(FIRST_LEAVING_TLS + next % (u16::MAX - FIRST_LEAVING_TLS)),
            Transport::Udp | Transport::UdpFallback => LinkId(next % FIRST_LISTENING),
        };
        *self.numbers.entry((link.clone(), transport)).or_insert(next)
    }

    /// Counts quotas. A link whose quota is used up is used only when nothing else works.
    pub(super) fn count_quotas(&mut self, report: &Report, plane: &Handle) {
        let now = unix_seconds();
        for link in self.links.values_mut() {
            let mut news = 0;
            for &id in link.ids.values() {
                let paths = report.peers.iter().flat_map(|(_, p)| &p.paths);
                let total: u64 = paths
                    .filter(|p| p.link == id)
                    .map(|p| p.counters.sent_bytes + p.counters.received_bytes)
                    .sum();
                // Zero: the link may be back, but its paths not yet.
                if total > 0 {
                    let before = self.counted.insert(id, total).unwrap_or(0);
                    news += total.saturating_sub(before);
                }
            }
            let Some(quota) = &mut link.quota else { continue };
            quota.charge(news, now);
            let exhausted = quota.exhausted(now);
            if exhausted != link.exhausted {
                link.exhausted = exhausted;
                if exhausted {
                    tracing::warn!(link = link.link.name.as_str(), "its quota is used up");
                }
                let _ = link.set(plane);
            }
        }
    }

    /// The paths' counters will start from 0 again.
    pub(super) fn forget_counters(&mut self) {
        self.counted.clear();
    }

    pub(super) fn quotas(&self) -> QuotaCounters {
        let now = unix_seconds();
        let counter = |quota: &Quota| QuotaCounter {
            used_bytes: quota.used(now).bytes(),
            period_start_unix: quota.period_start().unwrap_or_default(),
        };
        self.links
            .iter()
            .filter_map(|(name, link)| {
                Some((name.as_str().to_owned(), counter(link.quota.as_ref()?)))
            })
            .collect()
    }
}

impl BridgedLink {
    fn set(&self, plane: &Handle) -> Result<(), Stopped> {
        self.ids.values().try_for_each(|id| plane.change(Core::SetLink(*id, self.config())))
    }

    fn config(&self) -> LinkConfig {
        translate::link(&self.link, self.tier, self.exhausted, self.device_mtu)
    }
}

fn unix_seconds() -> i64 {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(unix.as_secs()).unwrap_or(i64::MAX)
}
