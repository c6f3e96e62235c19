//! Probes ask whether paths work and which datagrams they take.

use super::ControlSettings;
use super::datagram::{Datagram, Outlet, Transmit};
use super::news::PendingNews;
use braid_wire::{HEADER_LEN, TAG_LEN};

/// A ping's bytes, with what else it says: paths are compared for that.
const LIKELY: u64 = 50;

/// Who serves and could, liveness and MTU probes, the paths' policies, and a first packet with
/// new keys if the peer waits for one (`confirm`).
pub(super) fn poll(
    confirm: &mut bool,
    news: &mut PendingNews<'_>,
    settings: ControlSettings,
    outlet: &mut Outlet<'_>,
) -> Option<Transmit> {
    if std::mem::take(confirm) {
        let index = outlet.paths.iter().position(|p| p.liveness.is_up()).unwrap_or(0);
        if index < outlet.paths.len() {
            return ping(index, outlet);
        }
    }
    let now = outlet.now;
    if news.is_urgent()
        && let Some(index) = soonest(outlet)
    {
        let mut datagram = outlet.begin(index);
        datagram.write_ping(outlet.out);
        news.write_last(&mut datagram, &mut outlet.paths[index], outlet.out);
        return outlet.send_single(datagram, false);
    }
    for index in 0..outlet.paths.len() {
        let path = &outlet.paths[index];
        if outlet.paths.ask_at(path, settings.opens_paths).is_some_and(|at| at <= now) {
            outlet.paths[index].inbound.on_asked();
            return ping(index, outlet);
        }
        let path = &mut outlet.paths[index];
        let due = path.probe_at(settings.idle).is_some_and(|at| at <= now);
        let tell = path.liveness.is_up() && path.policy_untold && settings.opens_paths;
        if due || tell {
            path.liveness.on_probe(now);
            // While the path is silent its policy can't have arrived.
            path.policy_untold |= !path.liveness.is_up();
            let mut datagram = outlet.begin(index);
            datagram.write_ping(outlet.out);
            news.write(&mut datagram, &mut outlet.paths[index], outlet.out);
            news.write_last(&mut datagram, &mut outlet.paths[index], outlet.out);
            return outlet.send_single(datagram, false);
        }
        if path.liveness.is_up()
            && let Some(size) = path.mtu.poll_probe(now)
        {
            let room = usize::from(size).saturating_sub(HEADER_LEN + TAG_LEN);
            let mut datagram = Datagram::begin(index, room, outlet.out);
            datagram.write_ping(outlet.out);
            outlet.out.resize(datagram.start + HEADER_LEN + room, 0);
            datagram.mtu_probe = true;
            return outlet.send_single(datagram, false);
        }
    }
    None
}

/// The path that works by which a ping gets there soonest.
fn soonest(outlet: &Outlet<'_>) -> Option<usize> {
    let paths = outlet.paths.iter().enumerate().filter(|(_, path)| path.liveness.is_up());
    let arrives = paths.map(|(index, path)| (path.arrival_us(LIKELY, outlet.now), index));
    arrives.min().map(|(_, index)| index)
}

fn ping(index: usize, outlet: &mut Outlet<'_>) -> Option<Transmit> {
    let mut datagram = outlet.begin(index);
    datagram.write_ping(outlet.out);
    outlet.send_single(datagram, false)
}
