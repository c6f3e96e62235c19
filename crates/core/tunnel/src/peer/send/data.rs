//! Cuts packets into datagrams: repairs, then the queue, as many for one path as
//! it may send at once.

use super::ControlSettings;
use super::Send;
use super::datagram::{Datagram, LEAST_CHUNK, Outlet, Transmit};
use super::scheduler::{Choice, Item};
use crate::entry::FlowRedundancy;
use crate::outgoing::PacketKey;
use crate::path::sent::SentFrame;
use crate::path::{Controller, Path};
use crate::peer::ingress::Ingress;
use crate::peer::paths::PathSet;
use crate::peer::reliability::Reliability;
use crate::peer::timers::Timer;
use crate::peer::traffic::Sending;
use braid_units::Time;
use braid_wire::{HEADER_LEN, TAG_LEN};
use std::time::Duration;

/// Most datagrams in one batch: what UDP takes at once, 65 507 bytes, has as many of 1472
/// (`UDP_SEGMENT` takes 64).
const BATCH: usize = 44;
/// A batch lasts no longer than this at the path's rate: about what the pacer lets leave early
/// (`AHEAD` in `path/pacing.rs`). Ours; not measured apart.
const BATCH_TIME: Duration = Duration::from_micros(600);
/// While the CPU is the bottleneck datagrams hold whole blocks of the cipher only, in
/// bytes: the eight that one of 1472 has beyond them cost as much time as 300 others
/// (docs/experiments/line-speed.md).
const CIPHER_BLOCK: usize = 16;
/// How long a remainder waits for more to go with it. Ours; not measured apart.
const FILL_WAIT: Duration = Duration::from_millis(2);
/// What is sent next has about so many bytes, a full packet: paths are chosen for that.
const LIKELY: u64 = 1400;
/// So little room in a datagram, in bytes, can't be used: a chunk of [`LEAST_CHUNK`] with
/// a header of its own (docs/protocol.md, section 6: up to 19) needs more.
const CHUNK_HEADER: usize = 18;
const NEARLY_FULL: usize = LEAST_CHUNK as usize + CHUNK_HEADER;
/// Nothing more is looked for when a datagram has no more room than this, bytes: hardly any
/// header fits.
const FULL: usize = 16;
/// A packet of so many bytes, of a flow that isn't elastic, doesn't wait: requests, answers of
/// name servers, voice. Ours; not measured apart.
const SMALL: u32 = 512;

/// Of a flow that has sent little lately so many bytes, two full packets, don't wait either...
const SPARSE: u64 = 3000;
/// ...while the pacer of some path is no further ahead: with many flows on a slow path each has
/// sent little, and all of them together would flood it
/// (docs/experiments/many-streams-on-slow-links.md).
const SPARSE_AHEAD: Duration = Duration::from_millis(5);

/// What is to be sent next, and by which path.
struct Next {
    choice: Choice,
    /// Of the queue: the flow and what its next bytes are.
    queued: Option<(u16, Item)>,
}

/// What a datagram may be filled with.
struct Ask {
    /// Its path, and who comes next.
    choice: Choice,
    /// What comes first, if that's known already.
    queued: Option<(u16, Item)>,
    /// Its path was just chosen for what comes next.
    first: bool,
    /// The pacer holds all else back.
    only_urgent: bool,
    /// Something urgent, or of bulk, was asked for already.
    urgent_seen: bool,
    bulk_seen: bool,
}

/// What of a flow was written into a datagram.
enum Written {
    /// There is no room for it, or nothing to write.
    Nothing,
    /// Some bytes of its packet, or all.
    Some,
    /// The datagram ends in the midst of a packet that could go on so.
    Middle(Run),
}

impl Ask {
    fn new(choice: Choice, queued: Option<(u16, Item)>, first: bool, only_urgent: bool) -> Self {
        Self { choice, queued, first, only_urgent, urgent_seen: false, bulk_seen: false }
    }
}

/// A packet that fills datagram after datagram of a batch: its flow takes what
/// it gets.
#[derive(Clone, Copy, Debug)]
struct Run {
    flow: u16,
    key: PacketKey,
}

impl Send {
    /// Repairs and the queue, as many datagrams for one path as it may send at
    /// once.
    pub(super) fn poll_data(
        &mut self,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        settings: ControlSettings,
        outlet: &mut Outlet<'_>,
    ) -> Option<Transmit> {
        let next = self.next_data(ingress, reliability, outlet);
        self.declined = false;
        let Some(Next { choice, mut queued }) = next else {
            // What waits for a better path leaves the others free.
            self.declined = outlet.paths.have_room(outlet.now);
            if reliability.has_no_repairs() && (ingress.is_empty() || self.declined) {
                outlet.paths.on_idle(outlet.timers);
            }
            return None;
        };
        let index = choice.path;
        let path = &outlet.paths[index];
        let most = batch_size(path);
        let room = match path.room() {
            room if outlet.cpu_bound => room - room % CIPHER_BLOCK,
            room => room,
        };
        let mode = self.scheduler.mode;
        let mut segment = 0;
        let mut run = None;
        for count in 0..most {
            // What is urgent doesn't ask the pacer.
            let paced = count > 0 && !outlet.paths[index].is_available(outlet.now);
            let start = outlet.out.len();
            // None may be longer than the first: the kernel cuts by its size.
            let room = if count == 0 { room } else { segment - HEADER_LEN - TAG_LEN };
            let mut datagram = Datagram::begin(index, room, outlet.out);
            if count == 0 {
                self.feedback.ride(&datagram, outlet);
            }
            if !paced {
                let abandoned = &mut reliability.abandoned;
                let compressor = &mut self.packetizer.compressor;
                let mut news = self.news.pending(mode, abandoned, settings.opens_paths, compressor);
                news.write(&mut datagram, &mut outlet.paths[index], outlet.out);
            }
            let follows = match run {
                Some(run) if !paced => {
                    write_more_of(run, &mut datagram, ingress, reliability, outlet)
                }
                _ => false,
            };
            if !follows {
                let queued = queued.take();
                let ask = Ask::new(choice, queued, count == 0, paced);
                run = self.fill(&mut datagram, ask, ingress, reliability, outlet);
            }
            if datagram.is_empty(outlet.out) {
                outlet.out.truncate(start);
                break;
            }
            let left = datagram.left(outlet.out);
            if (1..NEARLY_FULL).contains(&left) && !ingress.is_empty() {
                // Padding, so that the batch goes on.
                outlet.out.resize(outlet.out.len() + left, 0);
            }
            let full = datagram.left(outlet.out) == 0;
            if !outlet.finish(datagram, true) {
                break;
            }
            let size = outlet.out.len() - start;
            if segment == 0 {
                segment = size;
            }
            // One that a chunk without a length has closed may have a byte less.
            if !full || size < segment {
                break;
            }
        }
        if outlet.out.is_empty() { None } else { outlet.transmit(index, segment) }
    }

    /// What is to be sent next; if it's the queue's, its flow is at the head then.
    fn next_data(
        &mut self,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        outlet: &mut Outlet<'_>,
    ) -> Option<Next> {
        let now = outlet.now;
        if reliability.next_repair().is_some()
            && let Some(choice) =
                self.scheduler.choose(outlet.paths, repair(reliability), LIKELY, None, now)
        {
            return Some(Next { choice, queued: None });
        }
        if reliability.is_full()
            || self.waits_for_more(ingress, reliability, outlet.paths, now).is_some()
        {
            return None;
        }
        ingress.unskip();
        for _ in 0..=ingress.active_flows() {
            let Some((flow, item)) = self.next_item(ingress, reliability, outlet) else { break };
            let (paths, bound) = (&*outlet.paths, outlet.cpu_bound);
            let choice = self.affinity.choose(&self.scheduler, paths, item, LIKELY, bound, now);
            if let Some(choice) = choice {
                return Some(Next { choice, queued: Some((flow, item)) });
            }
            ingress.skip(flow);
        }
        ingress.unskip();
        None
    }

    /// A remainder of an elastic flow that fills no datagram waits a moment for
    /// what comes next (as Nagle's algorithm does, RFC 896): else a third of
    /// the datagrams would carry the last few bytes of a packet. Until when, if
    /// so.
    pub(super) fn waits_for_more(
        &self,
        ingress: &Ingress,
        reliability: &Reliability,
        paths: &PathSet,
        now: Time,
    ) -> Option<Time> {
        let until = ingress.last_admitted() + FILL_WAIT;
        if now >= until || !reliability.has_no_repairs() || ingress.active_flows() != 1 {
            return None;
        }
        let flow = ingress.only_flow()?;
        let outgoing = reliability.get(self.packetizer.current(flow)?)?;
        let waiting = u64::from(outgoing.len() - outgoing.cut) + ingress.waiting_bytes();
        let elastic = self.scheduler.is_elastic(flow, now);
        let room = paths.least_room()?;
        (elastic && outgoing.cut > 0 && waiting < room as u64).then_some(until)
    }

    /// The flow whose turn it is, and what its next bytes are.
    fn next_item(
        &mut self,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        outlet: &mut Outlet<'_>,
    ) -> Option<(u16, Item)> {
        let working = outlet.working;
        loop {
            let head = ingress.head()?;
            let packetizer = &mut self.packetizer;
            let untold = packetizer.compressor.has_untold();
            let key = packetizer.head_packet(head.flow, ingress, reliability, outlet);
            let Some(key) = key else { continue };
            if !untold && packetizer.compressor.has_untold() {
                outlet.timers.fire(Timer::Control);
            }
            let waited = working - head.backlogged_since;
            let elastic = self.scheduler.see_backlog(head.flow, waited, outlet.now);
            let outgoing = reliability.get(key)?;
            let small = outgoing.len() <= SMALL;
            let rest = u64::from(outgoing.len() - outgoing.cut);
            let sparse = head.sparse
                && rest <= SPARSE
                && outlet.paths.has_room_within(outlet.now, SPARSE_AHEAD);
            let item = if outgoing.is_realtime() || ((small || sparse) && !elastic) {
                Item::Urgent
            } else {
                // What is before the last of it, as flows take turns.
                let turns = (head.backlog + rest) * ingress.active_flows().max(1) as u64;
                let backlog = turns.min(ingress.waiting_bytes() + rest);
                Item::Bulk { backlog, waited, elastic }
            };
            return Some((head.flow, item));
        }
    }

    /// Fills a datagram with what may go by its path. If it ends in the midst of
    /// a packet that could go on so: that.
    fn fill(
        &mut self,
        datagram: &mut Datagram,
        mut ask: Ask,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        outlet: &mut Outlet<'_>,
    ) -> Option<Run> {
        while datagram.left(outlet.out) > FULL {
            if let Some(missing) = reliability.next_repair() {
                if ask.only_urgent {
                    break;
                }
                if ask.first || self.remains(&ask, repair(reliability), outlet) {
                    if !write_repair(datagram, missing, reliability, outlet) {
                        break;
                    }
                    ask.first = false;
                    continue;
                }
            }
            let next = self.next_queued(datagram, &mut ask, ingress, reliability, outlet);
            let Some((flow, item)) = next else { break };
            if !self.goes_along(&mut ask, item, outlet) {
                break;
            }
            ask.first = false;
            match self.write_queued(datagram, flow, item, ingress, reliability, outlet) {
                Written::Nothing => break,
                Written::Some => {}
                Written::Middle(run) => return Some(run),
            }
        }
        None
    }

    /// What comes next of the queue for this datagram, if that may be sent now.
    fn next_queued(
        &mut self,
        datagram: &Datagram,
        ask: &mut Ask,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        outlet: &mut Outlet<'_>,
    ) -> Option<(u16, Item)> {
        let known = ask.queued.take();
        if known.is_some() {
            return known;
        }
        // The end of a packet goes with what is already here, but a new
        // datagram for it alone waits a moment.
        let waits = || self.waits_for_more(ingress, reliability, outlet.paths, outlet.now);
        if reliability.is_full() || !datagram.eliciting && waits().is_some() {
            return None;
        }
        self.next_item(ingress, reliability, outlet)
    }

    /// Whether `item` goes by this datagram's path. Of items that are alike only the first
    /// is asked for: the others don't differ by enough.
    fn goes_along(&self, ask: &mut Ask, item: Item, outlet: &Outlet<'_>) -> bool {
        let urgent = item == Item::Urgent;
        if ask.only_urgent && !urgent {
            return false;
        }
        let seen = if urgent { &mut ask.urgent_seen } else { &mut ask.bulk_seen };
        let like_before = std::mem::replace(seen, true);
        ask.first || like_before || fills_batches(item) || self.remains(ask, item, outlet)
    }

    /// Whether `item` too goes best by the path that was chosen.
    fn remains(&self, ask: &Ask, item: Item, outlet: &Outlet<'_>) -> bool {
        self.scheduler.remains(outlet.paths, ask.choice, item, LIKELY, outlet.now)
    }

    /// Appends what the flow, whose turn it is, has next, as much as there is room for.
    fn write_queued(
        &mut self,
        datagram: &mut Datagram,
        flow: u16,
        item: Item,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        outlet: &mut Outlet<'_>,
    ) -> Written {
        let Some(key) = self.packetizer.current(flow) else { return Written::Nothing };
        let Some(outgoing) = reliability.get(key) else { return Written::Nothing };
        let (offset, total) = (outgoing.cut, outgoing.len());
        let (by_rule, realtime) =
            (outgoing.redundancy != FlowRedundancy::Usual, outgoing.is_realtime());
        let rest = (key, offset, total - offset);
        let written = datagram.write_chunk(&reliability.outgoing, rest, Sending::First, outlet);
        if written == 0 {
            return Written::Nothing;
        }
        ingress.charge(flow, u64::from(written));
        if realtime {
            outlet.paths.note_realtime(outlet.now);
        }
        if (!fills_batches(item) || by_rule) && outlet.paths.up().nth(1).is_some() {
            let frame = SentFrame::Chunk { key, offset, len: written };
            let id = outlet.paths[datagram.path].id;
            let Reliability { redundancy, outgoing, .. } = reliability;
            if redundancy.copy_or_code(frame, outgoing, id, outlet.now) {
                ingress.charge(flow, u64::from(written));
            }
        }
        let Some(outgoing) = reliability.outgoing.get_mut(key) else { return Written::Some };
        outgoing.cut += written;
        if outgoing.cut >= total {
            self.packetizer.finish(flow, ingress);
        } else if fills_batches(item) && datagram.closed && !by_rule {
            return Written::Middle(Run { flow, key });
        }
        Written::Some
    }
}

/// What fills whatever it gets fills a batch too: a choice for each datagram would make as
/// many system calls.
fn fills_batches(item: Item) -> bool {
    matches!(item, Item::Bulk { elastic: true, .. })
}

/// What is to be sent again, as the scheduler sees it.
fn repair(reliability: &Reliability) -> Item {
    Item::Repair { backlog: reliability.repairs_waiting() as u64 * LIKELY }
}

/// Appends what is to be sent again; false if there is no room for it.
fn write_repair(
    datagram: &mut Datagram,
    (key, offset, len): (PacketKey, u32, u32),
    reliability: &mut Reliability,
    outlet: &mut Outlet<'_>,
) -> bool {
    let missing = (key, offset, len);
    let written = datagram.write_chunk(&reliability.outgoing, missing, Sending::Repair, outlet);
    if written == 0 {
        return false;
    }
    reliability.on_repaired(written);
    let repair = SentFrame::Chunk { key, offset, len: written };
    let class = reliability.class_of(key);
    reliability.redundancy.copy_repair(repair, class, outlet.paths, datagram.path);
    true
}

/// Fills a datagram with what follows in a packet that has enough left, of
/// the only flow; false if that isn't so. What was found out for the
/// datagram before isn't asked again.
fn write_more_of(
    run: Run,
    datagram: &mut Datagram,
    ingress: &mut Ingress,
    reliability: &mut Reliability,
    outlet: &mut Outlet<'_>,
) -> bool {
    if !reliability.has_no_repairs()
        || !datagram.is_empty(outlet.out)
        || reliability.is_full()
        || ingress.only_old_flow() != Some(run.flow)
    {
        return false;
    }
    let Some(written) = datagram.write_middle(&mut reliability.outgoing, run.key, outlet) else {
        return false;
    };
    ingress.charge_alone(run.flow, u64::from(written));
    true
}

/// How many datagrams may leave together: slow links see no bursts.
fn batch_size(path: &Path) -> usize {
    let datagram = u64::from(path.mtu.current()).max(1);
    let by_time = path.congestion.pacing_rate().bytes_in(BATCH_TIME) / datagram;
    (by_time as usize).clamp(1, BATCH)
}
