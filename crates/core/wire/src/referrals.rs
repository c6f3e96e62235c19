use crate::Malformed;
use crate::integer::{Reader, put_varint};

pub(crate) const REFERRALS: u8 = 0x0a;

/// Most concentrators that one frame names.
pub const MAX_REFERRALS: usize = 4;
/// Most addresses of one of them.
pub const MAX_ENDPOINTS: usize = 4;

/// From a concentrator: others by which the home may be served too. It comes last in a datagram:
/// who doesn't know the frame drops what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferralsFrame<'a> {
    /// Rises with each change, so that one that is late counts no more.
    pub epoch: u64,
    /// Has been read once without a fault.
    list: &'a [u8],
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferralEntry<'a> {
    /// Its Curve25519 public key.
    pub public_key: [u8; 32],
    /// Its name.
    pub name: &'a str,
    endpoints: &'a [u8],
}

impl<'a> ReferralsFrame<'a> {
    /// Most bytes of the list: a datagram of the least size has room for it.
    pub const MAX_LIST: usize = 400;
    /// Most bytes of the frame.
    pub const MAX_LEN: usize = 1 + 8 + 2 + Self::MAX_LIST;

    /// Appends one to a list. What doesn't fit there any more, or can't be written, is left out:
    /// then it's false.
    pub fn push(list: &mut Vec<u8>, public_key: &[u8; 32], name: &str, endpoints: &[&str]) -> bool {
        let before = list.len();
        list.extend_from_slice(public_key);
        let count = endpoints.len().min(MAX_ENDPOINTS);
        let fits = put_text(list, name) && count > 0 && {
            list.push(count as u8);
            endpoints.iter().take(count).all(|endpoint| put_text(list, endpoint))
        };
        if !fits || list.len() > Self::MAX_LIST || Entries(Reader(list)).count() > MAX_REFERRALS {
            list.truncate(before);
            return false;
        }
        true
    }

    /// Appends the frame with this list, made by [`push`](Self::push).
    pub fn write(epoch: u64, list: &[u8], out: &mut Vec<u8>) {
        out.push(REFERRALS);
        put_varint(out, epoch);
        out.extend_from_slice(&(list.len() as u16).to_be_bytes());
        out.extend_from_slice(list);
    }

    pub(crate) fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (epoch, length) = (reader.varint()?, usize::from(reader.u16()?));
        if length > Self::MAX_LIST {
            return Err(Malformed::TooLong);
        }
        let list = reader.bytes(length)?;
        let mut rest = Reader(list);
        let mut count = 0;
        while !rest.0.is_empty() {
            ReferralEntry::parse(&mut rest)?;
            count += 1;
        }
        if count > MAX_REFERRALS {
            return Err(Malformed::TooLong);
        }
        Ok(Self { epoch, list })
    }

    /// The bytes that [`write`](Self::write) takes.
    pub fn list(&self) -> &'a [u8] {
        self.list
    }

    /// Them all.
    pub fn entries(&self) -> impl Iterator<Item = ReferralEntry<'a>> {
        Entries(Reader(self.list))
    }
}

impl<'a> ReferralEntry<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut public_key = [0; 32];
        public_key.copy_from_slice(reader.bytes(32)?);
        let name = text(reader)?;
        let count = usize::from(reader.u8()?);
        if count == 0 {
            return Err(Malformed::Empty);
        }
        if count > MAX_ENDPOINTS {
            return Err(Malformed::TooLong);
        }
        let all = reader.0;
        for _ in 0..count {
            text(reader)?;
        }
        let endpoints = all.get(..all.len() - reader.0.len()).unwrap_or_default();
        Ok(Self { public_key, name, endpoints })
    }

    /// Where it is reached, HOST:PORT each; 1 to [`MAX_ENDPOINTS`].
    pub fn endpoints(&self) -> impl Iterator<Item = &'a str> {
        let mut rest = Reader(self.endpoints);
        std::iter::from_fn(move || text(&mut rest).ok())
    }
}

struct Entries<'a>(Reader<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = ReferralEntry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        ReferralEntry::parse(&mut self.0).ok()
    }
}

/// Length and UTF-8, not empty.
fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = usize::from(reader.u8()?);
    if length == 0 {
        return Err(Malformed::Empty);
    }
    std::str::from_utf8(reader.bytes(length)?).map_err(|_| Malformed::Contradiction)
}

fn put_text(out: &mut Vec<u8>, text: &str) -> bool {
    let Some(length) = u8::try_from(text.len()).ok().filter(|length| *length > 0) else {
        return false;
    };
    out.push(length);
    out.extend_from_slice(text.as_bytes());
    true
}
