//! Two links between a home and a concentrator, an engine over them, and its effect on traffic.

use braid_lab::cancel::Cancel;
use braid_lab::emulator::{Carrier, LinkChange};
use braid_lab::engines::{self, Bench, EngineName, Running, missing};
use braid_lab::scenario::Scenario;
use braid_lab::topology::{InKernel, Topology, TopologyOptions, has_netem};
use braid_lab::traffic::Streams;
use braid_linux::journal::UndoJournal;
use braid_linux::netns::NetNs;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A transfer over these links takes a second.
const BYTES: usize = 3_000_000;
/// A smaller transfer, to check that something passes.
const SOME_BYTES: usize = 100_000;
const FLOWS: usize = 16;
/// PPP detects a dead link by four echoes a second apart, and reconnects.
const RECOVERED_WITHIN: Duration = Duration::from_secs(60);
const GONE_WITHIN: Duration = Duration::from_secs(10);
const DATAGRAMS: u32 = 400;

/// How a transfer is spread, by the links' counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Both links carry a good part of a single connection.
    OneFlow,
    /// Both carry a good part of several.
    ManyFlows,
    /// The same, after teamd has redistributed them, which it does each second by load.
    DealtFlows,
    /// Both carry a single connection, once it has its second subflow.
    Subflows,
    /// Both carry all of it.
    Copies,
    /// One carries all of it.
    OneLink,
    /// Something passes.
    Any,
}

/// Both ends and the links.
pub struct Network {
    scenario: Scenario,
    topology: Topology,
    /// The link that is lost.
    pulled: usize,
    folder: TempDir,
    cancel: Cancel,
}

/// A running engine.
pub struct Up<'a> {
    network: &'a Network,
    engine: String,
    running: Running,
    /// The state before it.
    before: String,
}

impl Network {
    /// Two equal cables, their devices without addresses.
    pub fn of_cables() -> Self {
        let network = Self::build("ethernet = true", ["1ms", "1ms"]);
        network.forget_addresses();
        network
    }

    /// Two cables, one of them longer.
    pub fn of_unequal_cables() -> Self {
        let network = Self::build("ethernet = true", ["1ms", "6ms"]);
        network.forget_addresses();
        network
    }

    /// Two routed lines.
    pub fn of_lines() -> Self {
        // MPTCP opens its connections over the host's own route, the first link's.
        Network { pulled: 1, ..Self::build("", ["2ms", "2ms"]) }
    }

    fn build(kind: &str, delays: [&str; 2]) -> Self {
        let [first, second] = delays;
        let text = format!(
            "name = \"two\"\nduration = \"10s\"\n[[link]]\nname = \"one\"\n{kind}\n\
             down = {{ rate = \"20Mbit\", delay = \"{first}\" }}\n[[link]]\nname = \"two\"\n{kind}\n\
             down = {{ rate = \"20Mbit\", delay = \"{second}\" }}\n[[traffic]]\nkind = \"tcp\"\n"
        );
        let mut scenario = Scenario::parse("two.toml", &text, ".".as_ref()).unwrap();
        if has_netem() {
            scenario.in_kernel = InKernel::All;
        }
        let models: Vec<_> = scenario.links.iter().map(|link| link.model.clone()).collect();
        let options = TopologyOptions { in_kernel: scenario.in_kernel, ..Default::default() };
        let topology = Topology::build(&models, &options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        // active-backup prefers the first link.
        Network { scenario, topology, pulled: 0, folder, cancel: Cancel::new() }
    }

    /// What this kernel lacks for an engine.
    pub fn lacks(&self, engine: &str) -> Option<String> {
        missing::Host::default().lacks(&engine.parse().unwrap(), &self.scenario)
    }

    pub fn up(&self, engine: &str) -> Up<'_> {
        let before = self.snapshot();
        let name: EngineName = engine.parse().unwrap();
        let program = std::env::current_exe().unwrap();
        let bench = Bench {
            topology: &self.topology,
            scenario: &self.scenario,
            scratch: self.folder.path(),
            program: &program,
            cancel: &self.cancel,
        };
        let running =
            engines::bring_up(&name, &bench).unwrap_or_else(|error| panic!("{engine}: {error}"));
        Up { network: self, engine: engine.to_owned(), running, before }
    }

    /// The output of ip(8), tc(8) and nft(8) at both ends, without parts that always change. Uses
    /// few processes, since each is expensive in a VM.
    fn snapshot(&self) -> String {
        let script = "printf '%s\\n' 'link show' 'addr show' 'route show table all' rule nexthop | \
             ip -o -4 -batch -; tc qdisc show; nft list ruleset 2>/dev/null; \
             ! [ -e /proc/sys/net/mptcp ] || printf 'mptcp %s\n' endpoint limits | ip -batch -";
        let shown = |namespace: &NetNs| {
            let output = namespace.command("sh").args(["-c", script]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut lines: Vec<String> = text.lines().filter_map(lasting).collect();
            lines.sort();
            lines.join("\n")
        };
        shown(self.topology.home()) + "\n---\n" + &shown(self.topology.concentrator())
    }

    /// The output of the engine's programs.
    fn logs(&self) -> String {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let logs = files.filter(|file| file.extension().is_some_and(|end| end == "log"));
        let told = logs.map(|log| {
            format!(
                "\n--- {}\n{}",
                log.display(),
                std::fs::read_to_string(&log).unwrap_or_default()
            )
        });
        told.collect()
    }

    pub fn pull_a_link(&self) {
        self.topology.apply(self.pulled, &LinkChange::Carrier(Carrier::Down)).unwrap();
    }

    pub fn put_it_back(&self) {
        self.topology.apply(self.pulled, &LinkChange::Carrier(Carrier::Up)).unwrap();
    }

    /// Cables have no addresses before an engine assigns some.
    fn forget_addresses(&self) {
        for (namespace, devices) in self.ends() {
            for device in devices {
                let flush = ["address", "flush", "dev", &device];
                assert!(namespace.command("ip").args(flush).status().unwrap().success());
            }
        }
    }

    fn ends(&self) -> [(&NetNs, Vec<String>); 2] {
        let links = self.topology.links();
        let home = links.iter().map(|link| link.device().to_owned()).collect();
        let provider = links.iter().map(|link| link.provider_device().to_owned()).collect();
        [(self.topology.home(), home), (self.topology.concentrator(), provider)]
    }

    /// Bytes received from each link so far.
    fn arrived(&self) -> [u64; 2] {
        [0, 1].map(|link| self.topology.counters(link).down.bytes_out)
    }
}

/// The stable part of a snapshot's line; `None` for what the modules of GRE or TEQL add to a
/// namespace permanently.
fn lasting(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| {
        words.iter().position(|found| *found == word).and_then(|at| words.get(at + 1)).copied()
    };
    let of_a_module = |device: &str| {
        let name = device.trim_end_matches(':').split('@').next().unwrap_or_default();
        ["gre0", "gretap0", "erspan0", "teql0", "teql1"].contains(&name)
    };
    match words.as_slice() {
        // "3: one@if2: <BROADCAST,UP> mtu 1500 qdisc netem master bond0 state UP …"
        [number, device, flags, ..] if number.ends_with(':') && flags.starts_with('<') => {
            (!of_a_module(device))
                .then(|| format!("{device} mtu {:?} master {:?}", after("mtu"), after("master")))
        }
        // "3: one    inet 192.0.2.1/24 scope global one …"
        [number, device, "inet", net, ..] if number.ends_with(':') => {
            Some(format!("{device} {net}"))
        }
        ["qdisc", kind, ..] => {
            let device = after("dev")?;
            (!of_a_module(device)).then(|| format!("{device} {kind}"))
        }
        _ => Some(line.to_owned()),
    }
}

impl Up<'_> {
    /// Runs a transfer; returns the bytes that each link carried.
    fn transfer(&self, flows: usize, bytes: usize) -> Result<[u64; 2], String> {
        let before = self.network.arrived();
        let listener = self
            .network
            .topology
            .concentrator()
            .run(|| -> io::Result<TcpListener> {
                let socket = self.socket()?;
                socket.bind(&SocketAddr::from(([0, 0, 0, 0], 0)).into())?;
                socket.listen(FLOWS as i32)?;
                Ok(socket.into())
            })
            .unwrap()
            .unwrap();
        let server = SocketAddr::new(self.running.server, listener.local_addr().unwrap().port());
        let each = bytes / flows;
        // It listens until the end: MPTCP's further subflows connect to it, too.
        let listener = &listener;
        let failed = thread::scope(|scope| {
            scope.spawn(move || {
                listener.set_nonblocking(true).unwrap();
                let deadline = Instant::now() + Duration::from_secs(5);
                let mut served = 0;
                while served < flows && Instant::now() < deadline {
                    let Ok((mut connection, _)) = listener.accept() else {
                        thread::sleep(Duration::from_millis(5));
                        continue;
                    };
                    served += 1;
                    scope.spawn(move || {
                        connection.set_nonblocking(false).unwrap();
                        connection.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
                        let data: Vec<u8> = (0..each).map(|n| (n / 251) as u8).collect();
                        let _ = connection.write_all(&data);
                        let _ = connection.shutdown(Shutdown::Write);
                        // The client closes it.
                        connection.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                        let _ = connection.read(&mut [0]);
                    });
                }
            });
            let clients: Vec<_> =
                (0..flows).map(|_| scope.spawn(move || self.fetch(server, each))).collect();
            clients.into_iter().filter_map(|client| client.join().unwrap().err()).next()
        });
        if let Some(error) = failed {
            return Err(error);
        }
        // The counters are read from files; they include everything that has arrived.
        let after = self.network.arrived();
        Ok([after[0] - before[0], after[1] - before[1]])
    }

    fn fetch(&self, server: SocketAddr, bytes: usize) -> Result<(), String> {
        let home = self.network.topology.home();
        let connect = || -> io::Result<TcpStream> {
            let socket = self.socket()?;
            if let Some(source) = self.running.source {
                socket.bind(&SocketAddr::new(source, 0).into())?;
            }
            socket.connect_timeout(&server.into(), Duration::from_secs(3))?;
            Ok(socket.into())
        };
        let told = |error: io::Error| error.to_string();
        let mut stream = home.run(connect).and_then(|stream| stream).map_err(told)?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(told)?;
        let mut data = Vec::new();
        stream.read_to_end(&mut data).map_err(told)?;
        let right = data.len() == bytes
            && data.iter().enumerate().all(|(n, byte)| *byte == (n / 251) as u8);
        if right { Ok(()) } else { Err(format!("{} of {bytes} bytes came", data.len())) }
    }

    fn socket(&self) -> io::Result<Socket> {
        let protocol = match self.running.streams {
            Streams::Tcp => libc::IPPROTO_TCP,
            Streams::Mptcp => libc::IPPROTO_MPTCP,
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(protocol)))?;
        // Leave nothing behind after closing: unsent data of a connection whose link is gone keeps
        // its namespace for minutes, and TEQL's devices in it.
        socket.set_linger(Some(Duration::ZERO))?;
        Ok(socket)
    }

    /// Checks that the links carry a transfer as `spread` says.
    pub fn carries(&self, spread: Spread) {
        // These take a while, on a busy machine longer than a transfer.
        if matches!(spread, Spread::DealtFlows | Spread::Subflows) {
            return self.recovers(spread, "at first");
        }
        self.attempt(spread).unwrap_or_else(|error| panic!("{}: {error}", self.engine));
    }

    /// Checks that this becomes true at some time from now.
    pub fn recovers(&self, spread: Spread, when: &str) {
        let deadline = Instant::now() + RECOVERED_WITHIN;
        loop {
            match self.attempt(spread) {
                Ok(()) => return,
                Err(error) if Instant::now() >= deadline => {
                    panic!("{} {when}: {error}{}", self.engine, self.network.logs())
                }
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn attempt(&self, spread: Spread) -> Result<(), String> {
        let (flows, bytes) = match spread {
            Spread::OneFlow | Spread::Copies | Spread::OneLink => (1, BYTES),
            Spread::ManyFlows => (FLOWS, BYTES),
            Spread::DealtFlows => (FLOWS, 4 * BYTES),
            Spread::Subflows => (1, 4 * BYTES),
            Spread::Any => (1, SOME_BYTES),
        };
        let carried = self.transfer(flows, bytes)?;
        let [less, more] = [carried[0].min(carried[1]), carried[0].max(carried[1])];
        let (part, all) = ((bytes / 10) as u64, bytes as u64);
        let right = match spread {
            Spread::OneFlow | Spread::ManyFlows | Spread::DealtFlows | Spread::Subflows => {
                less > part
            }
            Spread::Copies => less >= all,
            Spread::OneLink => more >= all && less < part,
            Spread::Any => true,
        };
        if right { Ok(()) } else { Err(format!("by each link {carried:?}: not {spread:?}")) }
    }

    /// Sends numbered datagrams down at a pace that the links can carry; returns how many arrived
    /// after a later one.
    pub fn reordered_datagrams(&self) -> usize {
        let topology = &self.network.topology;
        let server = topology
            .concentrator()
            .run(|| UdpSocket::bind((self.running.server, 0)))
            .unwrap()
            .unwrap();
        let client = topology.home().run(|| UdpSocket::bind(("0.0.0.0", 0))).unwrap().unwrap();
        client.connect((self.running.server, server.local_addr().unwrap().port())).unwrap();
        client.send(b"hello").unwrap();
        client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let (_, home) = server.recv_from(&mut [0; 8]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..DATAGRAMS {
                    let mut datagram = [0; 1200];
                    datagram[..4].copy_from_slice(&number.to_be_bytes());
                    let _ = server.send_to(&datagram, home);
                    // Several at a time, since a VM's clock ticks coarsely.
                    if number % 4 == 3 {
                        thread::sleep(Duration::from_millis(2));
                    }
                }
            });
            let mut numbers: Vec<u32> = Vec::new();
            let mut datagram = [0; 1500];
            while let Ok(length) = client.recv(&mut datagram) {
                assert_eq!(length, 1200);
                numbers.push(u32::from_be_bytes(datagram[..4].try_into().unwrap()));
            }
            assert!(numbers.len() > DATAGRAMS as usize / 2, "{} came", numbers.len());
            let mut highest = 0;
            let mut late = 0;
            for number in numbers {
                if number < highest {
                    late += 1;
                }
                highest = highest.max(number);
            }
            late
        })
    }

    /// Ends its programs and undoes its set-up; checks that nothing is left.
    pub fn down(self) {
        let Up { network, engine, running, before } = self;
        drop(running);
        let mut set_up = false;
        for (side, namespace) in
            [("home", network.topology.home()), ("concentrator", network.topology.concentrator())]
        {
            let journal: PathBuf = network.folder.path().join(side).join("journal");
            set_up |= journal.exists();
            let failures = namespace.run(|| UndoJournal::open(&[journal]).unwrap().undo()).unwrap();
            assert!(failures.is_empty(), "{engine}, {side}: {failures:?}");
        }
        // The lab's own engines disappear with its network.
        if set_up {
            // The process that keeps a PPP bundle ends after its last link.
            let deadline = Instant::now() + GONE_WITHIN;
            while network.snapshot() != before && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(200));
            }
            assert_eq!(network.snapshot(), before, "{engine}: nothing is left behind");
        }
    }
}
