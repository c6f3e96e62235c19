//! Generic netlink: families that are found by name (linux/genetlink.h).

use super::Netlink;
use super::message::{Request, attributes, u16_at};
use std::io;

/// `GENL_ID_CTRL` and those of its messages that are used.
const CONTROL: u16 = 16;
const CONTROL_GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Bytes of `struct genlmsghdr`.
const HEADER_LEN: usize = 4;

/// A connection to one family of generic netlink, in the network namespace of
/// the thread that opened it.
pub struct Generic {
    netlink: Netlink,
    family: u16,
    version: u8,
}

impl Generic {
    /// Opens the family of this name.
    ///
    /// # Errors
    /// `NotFound` (ENOENT) when the kernel has none of this name.
    pub(super) fn open(name: &str, version: u8) -> io::Result<Generic> {
        Generic::by(Netlink::speaking(libc::NETLINK_GENERIC)?, name, version)
    }

    /// Like `open`, with an existing socket.
    pub(super) fn by(mut netlink: Netlink, name: &str, version: u8) -> io::Result<Generic> {
        let request = Request::new(CONTROL, 0)
            .fixed(&[CONTROL_GET_FAMILY, 1, 0, 0])
            .string(FAMILY_NAME, name);
        let mut family = None;
        netlink.query(request, |_, body| {
            let found = attributes(body.get(HEADER_LEN..).unwrap_or_default())
                .find(|(kind, _)| *kind == FAMILY_ID);
            family = found.and_then(|(_, id)| u16_at(id, 0)).or(family);
        })?;
        let family = family.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(Generic { netlink, family, version })
    }

    /// Sends a command that changes something.
    pub(super) fn change(
        &mut self,
        command: u8,
        fill: impl FnOnce(Request) -> Request,
    ) -> io::Result<()> {
        let request = self.request(command, libc::NLM_F_ACK);
        self.netlink.change(fill(request))
    }

    /// Sends a command and gives every answer's attributes to `each`.
    pub(super) fn query(
        &mut self,
        command: u8,
        flags: libc::c_int,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let request = self.request(command, flags);
        self.netlink.query(request, |_, body| each(body.get(HEADER_LEN..).unwrap_or_default()))
    }

    fn request(&self, command: u8, flags: libc::c_int) -> Request {
        Request::new(self.family, flags).fixed(&[command, self.version, 0, 0])
    }
}
