//! The TUN devices at both ends of an emulated link: whole IP packets, no
//! offloads, so that a packet is what crosses the link. (The tunnel's own
//! device, with offloads, is braid-linux's.)

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

/// linux/if_tun.h: `_IOW('T', 226, int)`, since Linux 5.0.
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;

/// A non-blocking TUN device; it disappears when dropped.
#[derive(Debug)]
pub struct LinkDevice {
    file: File,
}

impl LinkDevice {
    /// Creates the device `name` in the calling thread's network namespace, down and without
    /// addresses.
    ///
    /// # Errors
    /// `/dev/net/tun` is missing or may not be opened, or the kernel refuses the name. The message
    /// says what to do.
    pub fn open(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|error| explain(&error))?;
        let request = request(name)?;
        // SAFETY: the request is a valid ifreq that outlives the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return Err(io::Error::new(error.kind(), format!("TUN device {name:?}: {error}")));
        }
        Ok(LinkDevice { file })
    }

    /// Reads a packet into `buffer`; `None` if none is waiting.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a mut [u8]>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(buffer.get_mut(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Passes a packet to the kernel; returns `false` if it doesn't accept it because the device is
    /// down.
    pub fn write(&self, packet: &[u8]) -> bool {
        (&self.file).write(packet).is_ok()
    }

    /// Plugs the cable in or out.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_carrier(&self, carrier: bool) -> io::Result<()> {
        let value = libc::c_int::from(carrier);
        // SAFETY: the kernel reads an int, which outlives the call.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const value) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsRawFd for LinkDevice {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn explain(error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "load the module: modprobe tun",
        io::ErrorKind::PermissionDenied => {
            "the lab needs to open it for reading and writing: run as root, or chmod 666 it"
        }
        _ => "the lab's links are TUN devices",
    };
    io::Error::new(error.kind(), format!("/dev/net/tun: {error} ({hint})"))
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= request.ifr_name.len() || bytes.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} can't be a device name: 1 to 15 bytes"),
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    Ok(request)
}
