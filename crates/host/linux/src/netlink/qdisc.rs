//! Root queueing disciplines (linux/pkt_sched.h).

use super::Netlink;
use super::message::{Request, attributes, string, u32_at};
use std::io;

const TCA_KIND: u16 = 1;
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;

impl Netlink {
    /// Sets an interface's root queueing discipline, without parameters.
    ///
    /// # Errors
    /// `AlreadyExists` when one has been set; ENOENT when the kernel doesn't know this kind.
    pub fn add_root_qdisc(&mut self, interface: u32, kind: &str) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWQDISC, flags).fixed(&header(interface));
        self.change(request.string(TCA_KIND, kind))
    }

    /// The kind of an interface's root queueing discipline; it has one once it is up or one was
    /// set.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn root_qdisc(&mut self, interface: u32) -> io::Result<Option<String>> {
        let request = Request::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP).fixed(&header(0));
        let mut found = None;
        self.query(request, |_, body| {
            let is_it = u32_at(body, 4) == Some(interface) && u32_at(body, 12) == Some(ROOT);
            if let Some(rest) = body.get(20..).filter(|_| is_it) {
                let kind = attributes(rest).find(|(kind, _)| *kind == TCA_KIND);
                found = kind.map(|(_, name)| string(name));
            }
        })?;
        Ok(found)
    }

    /// Removes an interface's root queueing discipline; the kernel's default returns.
    ///
    /// # Errors
    /// ENOENT when none was set.
    pub fn delete_root_qdisc(&mut self, interface: u32) -> io::Result<()> {
        self.change(Request::new(libc::RTM_DELQDISC, 0).fixed(&header(interface)))
    }
}

/// `struct tcmsg`: family, interface, handle, parent, info.
fn header(interface: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&interface.to_ne_bytes());
    bytes[12..16].copy_from_slice(&if interface == 0 { 0 } else { ROOT }.to_ne_bytes());
    bytes
}
