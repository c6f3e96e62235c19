use super::statistics::{Bins, StallClock};
use super::{LOOK, Measured, Setting, joined, only_waited};
use crate::scenario::{CongestionControl, Traffic, TrafficDirection};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Size of one write and one read: large enough that system calls don't limit
/// gigabit links.
const CHUNK: usize = 128 << 10;
/// Pause before a refused connection is retried.
const RETRY: Duration = Duration::from_millis(100);

/// First byte of a connection: which end sends.
const SERVER_SENDS: u8 = b'd';
const CLIENT_SENDS: u8 = b'u';

/// Connections that carry as much as they can until the stop.
pub(super) fn run(
    traffic: &Traffic,
    congestion: CongestionControl,
    setting: &Setting<'_>,
) -> io::Result<Measured> {
    let listener = setting.concentrator.run(|| listen(congestion, setting))??;
    let directions: &[u8] = match traffic.direction {
        TrafficDirection::Down => &[SERVER_SENDS],
        TrafficDirection::Up => &[CLIENT_SENDS],
        TrafficDirection::Both => &[SERVER_SENDS, CLIENT_SENDS],
    };
    let expected = usize::from(traffic.flows) * directions.len();
    let flows = thread::scope(|scope| -> io::Result<Vec<Received>> {
        let server = scope.spawn(|| serve(&listener, expected, setting));
        let clients: Vec<_> = (0..traffic.flows)
            .flat_map(|_| directions)
            .map(|&who_sends| scope.spawn(move || client(who_sends, congestion, setting)))
            .collect();
        let mut flows = Vec::new();
        for client in clients {
            flows.extend(joined(client)?);
        }
        flows.extend(joined(server)?);
        Ok(flows)
    })?;
    Ok(summed(flows, expected, setting))
}

/// One receiver's observations.
pub(super) struct Received {
    pub(super) bins: Bins,
    pub(super) stalls: StallClock,
}

/// All flows together: the sum of bytes, the longest of the stalls.
pub(super) fn summed(flows: Vec<Received>, expected: usize, setting: &Setting<'_>) -> Measured {
    let whole = setting.stop.saturating_duration_since(setting.start);
    let mut delivered = Bins::new(setting.start, setting.stop);
    let mut longest = if flows.len() < expected { whole } else { Duration::ZERO };
    for flow in flows {
        delivered.merge(&flow.bins);
        longest = longest.max(flow.stalls.longest_until(setting.stop).unwrap_or(whole));
    }
    Measured { delivered: Some(delivered), longest_stall: Some(longest), ..Measured::default() }
}

pub(super) fn listen(congestion: CongestionControl, setting: &Setting<'_>) -> io::Result<Socket> {
    let socket = setting.stream(congestion.name(), false)?;
    socket.set_reuse_address(true)?;
    let mut address = setting.any();
    address.set_port(setting.port);
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The next connection; `None` at the stop. accept(2) on a Multipath TCP socket ignores timeouts,
/// so it is only called when a connection is waiting.
pub(super) fn accept(listener: &Socket, setting: &Setting<'_>) -> io::Result<Option<Socket>> {
    while !setting.over() {
        if !ready_within(listener, PollFlags::IN, LOOK)? {
            continue;
        }
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false)?;
                return Ok(Some(socket));
            }
            Err(error) if only_waited(&error) => {}
            // The connection was already gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Accepts connections until all have arrived or time is up; each runs in its own thread.
fn serve(listener: &Socket, expected: usize, setting: &Setting<'_>) -> io::Result<Vec<Received>> {
    thread::scope(|scope| {
        let mut flows = Vec::new();
        while flows.len() < expected
            && let Some(socket) = accept(listener, setting)?
        {
            flows.push(scope.spawn(move || serve_one(socket, setting)));
        }
        Ok(flows.into_iter().filter_map(joined).collect())
    })
}

fn serve_one(socket: Socket, setting: &Setting<'_>) -> Option<Received> {
    prepare(&socket).ok()?;
    let mut request = [0];
    if !read_fully(&socket, &mut request, setting) {
        return None;
    }
    match request {
        [CLIENT_SENDS] => Some(receive(&socket, setting)),
        _ => {
            send(&socket, setting);
            None
        }
    }
}

fn client(
    who_sends: u8,
    congestion: CongestionControl,
    setting: &Setting<'_>,
) -> io::Result<Option<Received>> {
    setting.home.enter()?;
    if !setting.cancel.sleep_until(setting.start) {
        return Ok(None);
    }
    let Some(socket) = connect(congestion, setting)? else { return Ok(None) };
    if !write_fully(&socket, &[who_sends], setting) {
        return Ok(None);
    }
    if who_sends == SERVER_SENDS {
        return Ok(Some(receive(&socket, setting)));
    }
    send(&socket, setting);
    Ok(None)
}

/// Connects to the server, retrying until the stop; `None` if it never worked.
pub(super) fn connect(
    congestion: CongestionControl,
    setting: &Setting<'_>,
) -> io::Result<Option<Socket>> {
    let server = SocketAddr::new(setting.server, setting.port);
    while !setting.over() {
        let socket = setting.stream(congestion.name(), true)?;
        prepare(&socket)?;
        if establish(&socket, server, setting) {
            return Ok(Some(socket));
        }
        setting.cancel.sleep_until((Instant::now() + RETRY).min(setting.stop));
    }
    Ok(None)
}

/// Waits for the handshake in steps, so that a cancelled run doesn't wait through the kernel's
/// minutes of SYN retransmissions.
fn establish(socket: &Socket, server: SocketAddr, setting: &Setting<'_>) -> bool {
    if socket.set_nonblocking(true).is_err() {
        return false;
    }
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => loop {
            if setting.over() {
                return false;
            }
            match ready_within(socket, PollFlags::OUT, setting.patience()) {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return false,
            }
        },
        Err(_) => return false,
    }
    matches!(socket.take_error(), Ok(None)) && socket.set_nonblocking(false).is_ok()
}

fn ready_within(socket: &Socket, events: PollFlags, time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time.max(Duration::from_millis(1))).ok();
    match poll(&mut [PollFd::new(socket, events)], time.as_ref()).map_err(io::Error::from) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if only_waited(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets timeouts for reads and writes, and no lingering data after the stop.
pub(super) fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(LOOK))?;
    socket.set_linger(Some(Duration::ZERO))
}

fn send(mut socket: &Socket, setting: &Setting<'_>) {
    // Varied, so that nothing on the way can compress it.
    let data: Vec<u8> =
        (0..CHUNK).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    while !setting.over() {
        match socket.write(&data) {
            Ok(_) => {}
            Err(error) if only_waited(&error) => {}
            // The connection is dead; the receiver's stall shows that.
            Err(_) => return,
        }
    }
}

fn receive(socket: &Socket, setting: &Setting<'_>) -> Received {
    let mut seen =
        Received { bins: Bins::new(setting.start, setting.stop), stalls: StallClock::default() };
    let mut buffer = vec![MaybeUninit::uninit(); CHUNK];
    while !setting.over() {
        match socket.recv(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                let now = Instant::now();
                seen.bins.add(now, bytes as u64);
                seen.stalls.arrival(now);
                setting.count(bytes as u64);
            }
            Err(error) if only_waited(&error) => {}
            Err(_) => break,
        }
    }
    seen
}

pub(super) fn read_fully(mut socket: &Socket, buffer: &mut [u8], setting: &Setting<'_>) -> bool {
    let mut rest = buffer;
    while !rest.is_empty() && !setting.over() {
        match socket.read(rest) {
            Ok(0) => return false,
            Ok(read) => rest = rest.get_mut(read..).unwrap_or_default(),
            Err(error) if only_waited(&error) => {}
            Err(_) => return false,
        }
    }
    rest.is_empty()
}

pub(super) fn write_fully(mut socket: &Socket, data: &[u8], setting: &Setting<'_>) -> bool {
    let mut rest = data;
    while !rest.is_empty() && !setting.over() {
        match socket.write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if only_waited(&error) => {}
            Err(_) => return false,
        }
    }
    rest.is_empty()
}
