//! Copies a file by SMB: a real Samba server and client, with the server's disk in memory. Each
//! talks to a relay on its own host, which binds to the engine's address or device, speaks TCP or
//! MPTCP to the other relay, and counts arriving bytes.

use super::statistics::{Bins, StallClock};
use super::tcp::{self, Received};
use super::{LOOK, Measured, Setting, joined, only_waited};
use crate::cancel::Cancel;
use crate::scenario::{CongestionControl, Traffic, TrafficDirection};
use braid_linux::netns::NetNs;
use rustix::process::{Pid, Signal, kill_process_group};
use socket2::{Domain, Protocol, Socket, Type};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A sparse file, larger than any run can copy.
const FILE_BYTES: u64 = 1 << 40;
/// How long smbd may take to start, even in a slow VM.
const SERVER_WITHIN: Duration = Duration::from_secs(20);
const CHUNK: usize = 128 << 10;
/// What users have.
const CONGESTION: CongestionControl = CongestionControl::Cubic;
/// Ports per copy: the relays' and the server's.
pub(super) const PORTS: u16 = 2;

/// A running Samba server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Server {
    /// Starts a server for the traffic whose first port is `port`, and waits until it accepts
    /// connections.
    ///
    /// # Errors
    /// smbd isn't installed, or doesn't start: with the end of its log.
    pub fn start(port: u16, concentrator: &NetNs, cancel: &Cancel) -> io::Result<Self> {
        let port = port.saturating_add(1);
        let folder = tempfile::Builder::new().prefix("braid-lab-smb-").tempdir()?;
        let path = folder.path();
        fs::create_dir(path.join("disk"))?;
        for key in FOLDERS {
            fs::create_dir(path.join(key.replace(' ', "-")))?;
        }
        fs::write(path.join("smb.conf"), configuration(path, port))?;
        let log = File::create(path.join("smbd.out"))?;
        // The disk is in memory and private to the server: nobody else sees the mount.
        let script = "mount -t tmpfs tmpfs \"$0/disk\" && truncate -s \"$1\" \"$0/disk/file\" && \
                      exec smbd --foreground --no-process-group -s \"$0/smb.conf\"";
        let mut command = concentrator.command("unshare");
        command.args(["-m", "sh", "-c", script]).arg(path).arg(FILE_BYTES.to_string());
        command.env("PATH", PATH).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let mut server = Server { child, folder, port };
        server.wait_until_ready(concentrator, cancel)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, concentrator: &NetNs, cancel: &Cancel) -> io::Result<()> {
        let deadline = Instant::now() + SERVER_WITHIN;
        loop {
            let connected = concentrator.run(|| local(self.port))?;
            if connected.is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() >= deadline || !cancel.sleep(LOOK) {
                let said: String = ["smbd.out", "smbd.log"]
                    .iter()
                    .filter_map(|log| fs::read_to_string(self.folder.path().join(log)).ok())
                    .collect();
                let last = said.lines().last().unwrap_or("it said nothing");
                return Err(io::Error::other(format!(
                    "smbd did not start (apt install samba smbclient): {last}"
                )));
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It isn't reaped yet, so the number is still its group's. Samba has a process for each
        // client.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Debian installs smbd outside users' PATH.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Samba's folders, all inside a folder of our own (smb.conf(5)).
const FOLDERS: [&str; 6] = [
    "lock directory",
    "state directory",
    "cache directory",
    "pid directory",
    "private dir",
    "ncalrpc dir",
];

fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    let folders: String =
        FOLDERS.iter().map(|key| format!("{key} = {folder}/{}\n", key.replace(' ', "-"))).collect();
    format!(
        "[global]\n{folders}log file = {folder}/smbd.log\nserver role = standalone server\n\
         smb ports = {port}\ninterfaces = lo\nbind interfaces only = yes\n\
         map to guest = bad user\nguest account = root\ndisable netbios = yes\n\
         load printers = no\nprinting = bsd\nprintcap name = /dev/null\ndisable spoolss = yes\n\
         server multi channel support = no\n\
         [disk]\npath = {folder}/disk\nguest ok = yes\nread only = no\nforce user = root\n"
    )
}

/// Copies until the stop.
pub(super) fn run(
    traffic: &Traffic,
    server: &Server,
    setting: &Setting<'_>,
) -> io::Result<Measured> {
    let listener = setting.concentrator.run(|| tcp::listen(CONGESTION, setting))??;
    let copies = match traffic.direction {
        TrafficDirection::Down => vec![true],
        TrafficDirection::Up => vec![false],
        TrafficDirection::Both => vec![true, false],
    };
    let copies: Vec<bool> = (0..traffic.flows).flat_map(|_| copies.iter().copied()).collect();
    let flows = thread::scope(|scope| -> io::Result<Vec<Received>> {
        let far = scope.spawn(|| far_relay(&listener, server, copies.len(), setting));
        let near: Vec<_> =
            copies.iter().map(|&down| scope.spawn(move || copy(down, server, setting))).collect();
        let mut flows = Vec::new();
        for (down, near) in copies.iter().zip(near) {
            let received = joined(near)?;
            flows.extend(received.filter(|_| *down));
        }
        // The server also receives the requests of downloads: only copies to it count, which make
        // up most of it.
        let mut up = joined(far)?;
        up.sort_by_key(|received| std::cmp::Reverse(received.total()));
        up.truncate(copies.iter().filter(|down| !**down).count());
        flows.extend(up);
        Ok(flows)
    })?;
    Ok(tcp::summed(flows, copies.len(), setting))
}

/// Runs a client at home and its relay.
fn copy(down: bool, server: &Server, setting: &Setting<'_>) -> io::Result<Option<Received>> {
    setting.home.enter()?;
    // Start immediately: the copy must be in progress when its measurement starts.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(1)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.as_socket().map_or(0, |address| address.port());
    let _client = Client::start(down, port, server.folder.path(), setting.home)?;
    let Some(client) = tcp::accept(&listener, setting)? else { return Ok(None) };
    tcp::prepare(&client)?;
    let Some(links) = tcp::connect(CONGESTION, setting)? else { return Ok(None) };
    Ok(Some(relay(&client, &links, setting)))
}

/// smbclient, ended when dropped.
struct Client(Child);

impl Client {
    fn start(down: bool, port: u16, folder: &Path, home: &NetNs) -> io::Result<Self> {
        let local = folder.join(format!("upload-{port}"));
        let action = if down {
            "get file /dev/null".to_owned()
        } else {
            File::create(&local)?.set_len(FILE_BYTES)?;
            format!("put {} copy-{port}", local.display())
        };
        let mut command = home.command("smbclient");
        let port = OsString::from(port.to_string());
        command.args(["//127.0.0.1/disk", "-N", "-m", "SMB3", "-t", "600", "-s"]);
        command.arg(folder.join("smb.conf")).arg("-p").arg(port).arg("-c").arg(action);
        let log = File::create(folder.join("smbclient.out"))?;
        command.env("PATH", PATH).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().map(Client).map_err(|error| {
            io::Error::new(error.kind(), format!("smbclient: {error} (apt install smbclient)"))
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Relays what arrives over the links to the server, until the stop.
fn far_relay(
    listener: &Socket,
    server: &Server,
    expected: usize,
    setting: &Setting<'_>,
) -> io::Result<Vec<Received>> {
    setting.concentrator.enter()?;
    thread::scope(|scope| {
        let mut flows = Vec::new();
        while flows.len() < expected {
            let Some(links) = tcp::accept(listener, setting)? else { break };
            flows.push(scope.spawn(move || -> io::Result<Received> {
                tcp::prepare(&links)?;
                let local = local(server.port)?;
                tcp::prepare(&local)?;
                Ok(relay(&local, &links, setting))
            }));
        }
        Ok(flows.into_iter().filter_map(|flow| joined(flow).ok()).collect())
    })
}

/// A connection to the server on its own host.
fn local(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    Ok(socket)
}

/// Relays in both directions until the stop; counts what arrives over the links.
fn relay(local: &Socket, links: &Socket, setting: &Setting<'_>) -> Received {
    for socket in [local, links] {
        // SMB is request and response; without this option it is only slower.
        let _ = socket.set_tcp_nodelay(true);
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            pass(local, links, setting, |_| {});
        });
        let mut seen = Received::new(setting);
        pass(links, local, setting, |bytes| seen.add(bytes, setting));
        // The other direction ends with its sockets.
        let _ = local.shutdown(Shutdown::Both);
        let _ = links.shutdown(Shutdown::Both);
        seen
    })
}

fn pass(mut from: &Socket, to: &Socket, setting: &Setting<'_>, mut count: impl FnMut(usize)) {
    let mut buffer = vec![0; CHUNK];
    while !setting.over() {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                count(length);
                let data = buffer.get(..length).unwrap_or_default();
                if !tcp::write_fully(to, data, setting) {
                    break;
                }
            }
            Err(error) if only_waited(&error) => {}
            Err(_) => break,
        }
    }
}

impl Received {
    fn new(setting: &Setting<'_>) -> Self {
        Received { bins: Bins::new(setting.start, setting.stop), stalls: StallClock::default() }
    }

    fn add(&mut self, bytes: usize, setting: &Setting<'_>) {
        let now = Instant::now();
        self.bins.add(now, bytes as u64);
        self.stalls.arrival(now);
        setting.count(bytes as u64);
    }

    fn total(&self) -> u64 {
        self.bins.total()
    }
}
