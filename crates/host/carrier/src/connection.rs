//! One TLS connection, once both ends know each other.

use crate::end::End;
use crate::framing::{self, Decoder};
use crate::group::Group;
use crate::knock::{EXPORTER_LABEL, Exported};
use braid_linux::udp::CarriedBatch;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long the data plane may be busy otherwise before what arrived is lost, as from a full
/// receive buffer.
const PATIENCE: Duration = Duration::from_millis(100);

/// The secret of a TLS session.
pub(crate) fn exported<D>(session: &rustls::ConnectionCommon<D>) -> io::Result<Exported> {
    let secret = session.export_keying_material([0; 32], EXPORTER_LABEL, None);
    secret.map(Exported).map_err(io::Error::other)
}

/// Carries until the connection ends. Received datagrams are passed to the data plane as coming
/// from `remote`.
pub(crate) async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    group: &Group,
    end: &End,
    remote: SocketAddr,
) -> io::Result<()> {
    let (reading, writing) = tokio::io::split(stream);
    tokio::select! {
        ended = receive(reading, end, remote) => ended,
        ended = send(writing, group) => ended,
    }
}

async fn receive(
    mut stream: impl AsyncRead + Unpin,
    end: &End,
    remote: SocketAddr,
) -> io::Result<()> {
    let mut decoder = Decoder::new();
    loop {
        match stream.read(decoder.room()).await? {
            0 => return Ok(()),
            len => decoder.filled(len),
        }
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            let batch = CarriedBatch { remote, segment: frame.segment, contents: frame.contents };
            if let Ok(Err(error)) = timeout(PATIENCE, end.send(&batch)).await {
                return Err(error);
            }
        }
    }
}

async fn send(mut stream: impl AsyncWrite + Unpin, group: &Group) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let batch = group.next().await;
        let Some(head) = framing::head(batch.segment, batch.contents.len()) else { continue };
        bytes.clear();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&batch.contents);
        stream.write_all(&bytes).await?;
        // Wait until the kernel has it, so that the next batch goes to whichever connection can
        // send then.
        stream.flush().await?;
    }
}
