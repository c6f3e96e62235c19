//! Which packets go with their headers compressed, and by what (docs/protocol.md, section 6;
//! docs/design/018-header-compression.md).

use crate::carried::CarriedPacket;
use crate::header_contexts::HeaderContexts;
use crate::index_map::IndexMap;
use braid_inner::{InnerPacket, Layer};
use braid_wire::{Form, HeaderContext};
use std::collections::VecDeque;

/// So many packets of one connection that have no context: it gets one. What ends sooner wouldn't
/// be worth the frame, of some 100 bytes with its datagram. Ours.
const WORTH_IT: u8 = 8;
/// In longer packets, super-packets on quick links, the header is less than a hundredth, and to
/// move the rest costs more than it's worth. Bytes; ours.
const LONGEST: usize = 8192;
/// A peer that has answered none of so many contexts doesn't know the frame: it's told of no more.
const UNANSWERED: u8 = 4;

/// Compresses the headers of a peer's packets once it knows the context.
#[derive(Debug)]
pub(super) struct HeaderCompressor {
    enabled: bool,
    layer: Layer,
    contexts: HeaderContexts,
    flows: IndexMap<u16, Flow>,
    /// The number of the next context, of whatever flow: none is soon used again.
    next: u8,
    /// Contexts that the peer was told of, while it has never said that it knows one.
    unanswered: Option<u8>,
    /// Contexts that the peer is to be told of.
    untold: VecDeque<(u16, u8)>,
    /// A compressed header is made here.
    header: Vec<u8>,
}

/// What is known of a flow.
#[derive(Debug, Default)]
struct Flow {
    context: Option<Current>,
    /// The connection of the last packets that weren't of its context, and their number.
    strangers: (u32, u8),
}

/// A flow's newest context.
#[derive(Clone, Copy, Debug)]
struct Current {
    number: u8,
    /// The peer has said that it knows it.
    known: bool,
}

impl HeaderCompressor {
    /// No contexts yet. `enabled`: there are to be some.
    pub fn new(layer: Layer, enabled: bool) -> Self {
        Self {
            enabled,
            layer,
            contexts: HeaderContexts::new(layer),
            flows: IndexMap::default(),
            next: 0,
            unanswered: Some(0),
            untold: VecDeque::new(),
            header: Vec::new(),
        }
    }

    /// The packet as it's to be carried: compressed, if its flow's context is known to the peer,
    /// unless the processor is the limit (`cpu_bound`) instead of the links.
    pub fn compress(&mut self, flow: u16, packet: InnerPacket, cpu_bound: bool) -> CarriedPacket {
        if !self.enabled || cpu_bound || packet.bytes.len() > LONGEST {
            return packet.into();
        }
        let of_flow = self.flows.entry(flow).or_default();
        let known = of_flow.context.and_then(|current| {
            self.header.clear();
            self.header.push(current.number);
            let context = self.contexts.get(flow, current.number)?;
            let checksum = packet.offload.checksum;
            let payload = context.compress(&packet.bytes, checksum, &mut self.header);
            Some((current, payload?))
        });
        let Some((current, payload)) = known else {
            self.note_stranger(flow, &packet);
            return packet.into();
        };
        of_flow.strangers.1 = 0;
        if !current.known || self.header.len() >= payload {
            return packet.into();
        }
        let form = Form::Compressed(packet.offload.segmentation);
        let mut carried = CarriedPacket { bytes: packet.bytes, form };
        carried.replace_front(payload, &self.header);
        carried
    }

    /// As it was before [`Self::compress`].
    pub fn restore(&mut self, flow: u16, packet: CarriedPacket) -> Option<InnerPacket> {
        self.contexts.restore(flow, packet)
    }

    /// The peer is to be told of some context.
    pub fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// A context that the peer is to be told of, and its bytes.
    pub fn next_untold(&mut self) -> Option<(u16, u8, &[u8])> {
        while let Some((flow, number)) = self.untold.pop_front() {
            if self.contexts.get(flow, number).is_some() {
                let context = self.contexts.get(flow, number)?;
                return Some((flow, number, context.as_bytes()));
            }
        }
        None
    }

    /// What it was told of this context was lost.
    pub fn on_lost(&mut self, flow: u16, number: u8) {
        if self.current(flow, number).is_some_and(|current| !current.known) {
            self.untold.push_back((flow, number));
        }
    }

    /// The peer knows this context.
    pub fn on_known(&mut self, flow: u16, number: u8) {
        if let Some(current) = self.current(flow, number) {
            current.known = true;
            self.unanswered = None;
        }
    }

    /// The peer restarted: it knows none.
    pub fn restart(&mut self) {
        self.forget();
        self.unanswered = Some(0);
    }

    /// Forgets all contexts; their numbers go on.
    pub fn forget(&mut self) {
        self.contexts.clear();
        self.flows = IndexMap::default();
        self.untold = VecDeque::new();
        self.header = Vec::new();
    }

    fn current(&mut self, flow: u16, number: u8) -> Option<&mut Current> {
        let current = self.flows.get_mut(&flow)?.context.as_mut()?;
        (current.number == number).then_some(current)
    }

    /// A packet isn't of its flow's context, if that has one: it may become the next.
    fn note_stranger(&mut self, flow: u16, packet: &InnerPacket) {
        let fingerprint = HeaderContext::fingerprint(&packet.bytes, self.layer);
        let (Some(of_flow), Some(connection)) = (self.flows.get_mut(&flow), fingerprint) else {
            return;
        };
        let before = if of_flow.strangers.0 == connection { of_flow.strangers.1 } else { 0 };
        of_flow.strangers = (connection, before.saturating_add(1));
        let is_deaf = self.unanswered.is_some_and(|count| count >= UNANSWERED);
        if of_flow.strangers.1 < WORTH_IT || is_deaf {
            return;
        }
        of_flow.strangers.1 = 0;
        let Some(context) = HeaderContext::of_packet(&packet.bytes, self.layer) else { return };
        let number = self.next;
        self.next = number.wrapping_add(1);
        of_flow.context = Some(Current { number, known: false });
        self.contexts.insert(flow, number, context);
        self.unanswered = self.unanswered.map(|count| count + 1);
        self.untold.push_back((flow, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::{Offload, checksum};

    const FLOW: u16 = 5;

    /// A segment of 100 bytes of the connection from this port.
    fn segment(port: u16, sequence: u32) -> InnerPacket {
        let mut bytes = vec![0x45, 0, 0, 140, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = !checksum::sum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 80]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0xab, 0xcd, 0, 0]);
        bytes.extend([7; 100]);
        InnerPacket { bytes, offload: Offload::default() }
    }

    fn compressor() -> HeaderCompressor {
        HeaderCompressor::new(Layer::L3, true)
    }

    /// Sends that many segments; how many were compressed.
    fn send(compressor: &mut HeaderCompressor, port: u16, count: u32) -> usize {
        let carried = (0..count).map(|n| compressor.compress(FLOW, segment(port, n), false));
        carried.filter(|packet| packet.form == Form::Compressed(None)).count()
    }

    /// Tells the peer of what there is; the contexts.
    fn tell(compressor: &mut HeaderCompressor) -> Vec<(u16, u8)> {
        let next = || compressor.next_untold().map(|(flow, number, _)| (flow, number));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_stream_is_compressed_once_the_peer_knows_its_context() {
        let mut sender = compressor();
        let mut peer = HeaderContexts::new(Layer::L3);
        assert_eq!(send(&mut sender, 1, u32::from(WORTH_IT) - 1), 0);
        assert_eq!(sender.next_untold(), None, "too short to be worth it");
        assert_eq!(send(&mut sender, 1, 20), 0);
        let (flow, number, header) = sender.next_untold().unwrap();
        assert!(peer.learn(flow, number, header));
        assert_eq!(send(&mut sender, 1, 20), 0, "the peer may not have got it");
        sender.on_known(flow, number);
        let sent = segment(1, 77);
        let carried = sender.compress(FLOW, sent.clone(), false);
        assert!(carried.form == Form::Compressed(None) && carried.bytes.len() < 112, "{carried:?}");
        assert_eq!(peer.restore(FLOW, carried), Some(sent.clone()));
        let carried = sender.compress(FLOW, sent.clone(), true);
        assert_eq!((carried.form, carried.bytes), (Form::default(), sent.bytes), "no time for it");
    }

    #[test]
    fn a_context_that_was_lost_is_told_of_again() {
        let mut sender = compressor();
        send(&mut sender, 1, 20);
        let [(flow, number)] = tell(&mut sender)[..] else { panic!("one context") };
        sender.on_lost(flow, number);
        assert_eq!(tell(&mut sender), [(flow, number)]);
        sender.on_known(flow, number);
        sender.on_lost(flow, number);
        assert_eq!(tell(&mut sender), []);
    }

    #[test]
    fn another_connection_in_the_same_flow_gets_a_context_of_its_own() {
        let mut sender = compressor();
        send(&mut sender, 1, 20);
        let first = tell(&mut sender)[0];
        sender.on_known(first.0, first.1);
        assert_eq!(send(&mut sender, 2, 20), 0);
        let second = tell(&mut sender)[0];
        assert_ne!(first, second);
        // What is said of the one before counts no more.
        sender.on_known(first.0, first.1);
        assert_eq!(send(&mut sender, 2, 1), 0);
        sender.on_known(second.0, second.1);
        assert_eq!(send(&mut sender, 2, 5), 5);
    }

    #[test]
    fn what_was_compressed_by_the_context_before_is_understood_yet() {
        let mut sender = compressor();
        let mut peer = HeaderContexts::new(Layer::L3);
        let mut late = Vec::new();
        for port in [1, 2] {
            send(&mut sender, port, 20);
            let (flow, number, header) = sender.next_untold().unwrap();
            assert!(peer.learn(flow, number, header));
            sender.on_known(flow, number);
            late.push(sender.compress(FLOW, segment(port, 30), false));
        }
        for (port, packet) in [1, 2].into_iter().zip(late) {
            assert_eq!(packet.form, Form::Compressed(None));
            assert_eq!(peer.restore(FLOW, packet), Some(segment(port, 30)));
        }
    }

    #[test]
    fn connections_that_alternate_get_none() {
        let mut sender = compressor();
        for n in 0..100 {
            send(&mut sender, n % 7, 1);
        }
        assert_eq!(tell(&mut sender), []);
    }

    #[test]
    fn a_peer_that_never_answers_is_told_of_a_few_only() {
        let mut sender = compressor();
        let mut told = 0;
        for port in 0..100 {
            assert_eq!(send(&mut sender, port, 20), 0);
            told += tell(&mut sender).len();
        }
        assert_eq!(told, usize::from(UNANSWERED));
        // Another program is there now, perhaps.
        sender.restart();
        send(&mut sender, 1, 20);
        let [(flow, number)] = tell(&mut sender)[..] else { panic!("one context") };
        sender.on_known(flow, number);
        assert_eq!(send(&mut sender, 1, 5), 5);
    }

    #[test]
    fn a_restarted_peer_gets_nothing_compressed() {
        let mut sender = compressor();
        send(&mut sender, 1, 20);
        let [(flow, number)] = tell(&mut sender)[..] else { panic!("one context") };
        sender.on_known(flow, number);
        assert_eq!(send(&mut sender, 1, 5), 5);
        sender.restart();
        assert_eq!(send(&mut sender, 1, 5), 0);
        sender.on_known(flow, number);
        assert_eq!(send(&mut sender, 1, 5), 0, "what it knew before");
    }

    #[test]
    fn a_peer_without_the_context_makes_nothing_of_it() {
        let mut sender = compressor();
        let mut peer = HeaderContexts::new(Layer::L3);
        send(&mut sender, 1, 20);
        let [(flow, number)] = tell(&mut sender)[..] else { panic!("one context") };
        sender.on_known(flow, number);
        let carried = sender.compress(FLOW, segment(1, 30), false);
        assert_eq!(peer.restore(FLOW, carried), None);
        assert!(!peer.learn(2000, 0, &segment(1, 1).bytes[..40]), "no such flow");
        assert!(!peer.learn(FLOW, 0, &[1, 2, 3]), "no header");
        for nonsense in [vec![], vec![number], vec![number, 0xff], vec![number, 0]] {
            let packet = CarriedPacket { bytes: nonsense, form: Form::Compressed(None) };
            assert_eq!(peer.restore(FLOW, packet), None);
        }
    }
}
