use super::{CHECK_LEN, GroupSize, Member, Parity, SourceId, fold};
use braid_units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A parity to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingParity {
    /// The parity.
    pub parity: Parity,
    /// The paths that its chunks went by, each once. It's best sent by another,
    /// else by the one that carried the fewest: they are sorted so.
    pub paths: Vec<u8>,
}

/// Makes parities of the chunks that are sent.
#[derive(Clone, Debug)]
pub struct Encoder {
    size: Option<GroupSize>,
    max_wait: Duration,
    /// The groups being filled, as many as are interleaved.
    open: Vec<Option<Group>>,
    /// By path, the group that its last chunk fell into.
    last: BTreeMap<u8, usize>,
}

#[derive(Clone, Debug)]
struct Group {
    since: Time,
    members: Vec<Member>,
    body: Vec<u8>,
    paths: BTreeMap<u8, u32>,
}

impl Encoder {
    /// An encoder that is off until [`set_size`](Self::set_size). A parity is
    /// made at the latest `max_wait` after its first chunk; `interleave` groups
    /// are filled at a time.
    pub fn new(max_wait: Duration, interleave: u8) -> Self {
        let open = vec![None; usize::from(interleave.max(1))];
        Encoder { size: None, max_wait, open, last: BTreeMap::new() }
    }

    /// From now on `size` chunks share a parity; with `None` there is none, and
    /// unfinished groups are dropped.
    pub fn set_size(&mut self, size: Option<GroupSize>) {
        self.size = size;
        if size.is_none() {
            self.open.fill(None);
        }
    }

    /// A chunk was sent by `path`: `bytes` as coded for the wire, in the one
    /// form that the peer can rebuild. Returns the parity of the group that it
    /// completes.
    pub fn push(
        &mut self,
        now: Time,
        id: SourceId,
        bytes: &[u8],
        path: u8,
    ) -> Option<OutgoingParity> {
        let size = usize::from(self.size?.get());
        let len = u16::try_from(bytes.len()).ok()?;
        let member = Member { id, len };
        // A chunk that is sent again is covered already.
        if self.open.iter().flatten().any(|g| g.members.iter().any(|m| m.id == id)) {
            return None;
        }
        // Each path goes round the groups; they don't all begin with the same.
        let last = self.last.entry(path).or_insert(usize::from(path));
        *last = (*last + 1) % self.open.len();
        let slot = self.open.get_mut(*last)?;
        let group = slot.get_or_insert_with(|| Group::new(now));
        group.add(member, bytes, path);
        if group.members.len() < size {
            return None;
        }
        slot.take().and_then(Group::finish)
    }

    /// The parity of a group that has waited long enough. A chunk that is still
    /// alone is let go: its parity would be a mere duplicate.
    pub fn poll(&mut self, now: Time) -> Option<OutgoingParity> {
        let max_wait = self.max_wait;
        for slot in &mut self.open {
            if let Some(group) = slot.take_if(|group| now >= group.since + max_wait)
                && group.members.len() >= 2
            {
                return group.finish();
            }
        }
        None
    }

    /// When [`poll`](Self::poll) is to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        self.open.iter().flatten().map(|group| group.since + self.max_wait).min()
    }
}

impl Group {
    fn new(now: Time) -> Self {
        let (members, body, paths) = (Vec::new(), vec![0; CHECK_LEN], BTreeMap::new());
        Group { since: now, members, body, paths }
    }

    fn add(&mut self, member: Member, bytes: &[u8], path: u8) {
        self.body.resize(self.body.len().max(CHECK_LEN + bytes.len()), 0);
        fold(&mut self.body, member, bytes);
        self.members.push(member);
        *self.paths.entry(path).or_insert(0) += 1;
    }

    fn finish(self) -> Option<OutgoingParity> {
        let mut paths: Vec<(u32, u8)> = self.paths.iter().map(|(p, n)| (*n, *p)).collect();
        paths.sort_unstable();
        let parity = Parity::new(self.members, self.body).ok()?;
        Some(OutgoingParity { parity, paths: paths.into_iter().map(|(_, p)| p).collect() })
    }
}
