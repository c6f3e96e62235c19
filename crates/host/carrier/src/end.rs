//! Async access to the carrier's end of the data plane's socket.

use crate::framing::LARGEST;
use braid_linux::udp::{CarriedBatch, CarrierEnd};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram as Blocking;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// Room for a batch and its head.
const ROOM: usize = LARGEST + 64;

pub(crate) struct End(UnixDatagram);

impl End {
    /// Must be called inside a runtime.
    pub(crate) fn new(end: CarrierEnd) -> io::Result<End> {
        UnixDatagram::from_std(Blocking::from(end.into_fd())).map(End)
    }

    /// Delivers a batch to the data plane.
    pub(crate) async fn send(&self, batch: &CarriedBatch<'_>) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, || batch.send(&self.0)).await
    }

    /// Calls `each` with every batch that the data plane sends and its segment length, until the
    /// data plane closes its socket.
    pub(crate) async fn receive_all(&self, mut each: impl FnMut(SocketAddr, u16, &[u8])) {
        let mut buffer = vec![0; ROOM];
        loop {
            let took = self.0.async_io(Interest::READABLE, || {
                let batch = CarriedBatch::receive(&self.0, &mut buffer)?;
                Ok(batch.map(|it| each(it.remote, it.segment, it.contents)))
            });
            match took.await {
                Ok(Some(())) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}
