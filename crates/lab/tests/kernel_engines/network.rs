//! Two links between a home and a concentrator, an engine over them, and what
//! it does to traffic.

use braid_lab::cancel::Cancel;
use braid_lab::emulator::{Carrier, LinkChange};
use braid_lab::engines::{self, Bench, EngineName, Running, missing};
use braid_lab::scenario::Scenario;
use braid_lab::topology::{InKernel, Topology, TopologyOptions, has_netem};
use braid_linux::netns::NetNs;
use braid_linux::routing::Journal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A transfer over these links takes a second.
const BYTES: usize = 3_000_000;
/// Part of them, to see that something passes.
const SOME_BYTES: usize = 100_000;
const FLOWS: usize = 16;
/// PPP notices a dead link by four echoes a second apart.
const RECOVERED_WITHIN: Duration = Duration::from_secs(20);
const DATAGRAMS: u32 = 400;

/// What it takes for an engine to use both links.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// A single connection.
    OneFlow,
    /// Several.
    ManyFlows,
}

/// Both ends and the links.
pub struct Network {
    scenario: Scenario,
    topology: Topology,
    folder: TempDir,
    cancel: Cancel,
}

/// An engine that is up.
pub struct Up<'a> {
    network: &'a Network,
    engine: String,
    running: Running,
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
        Self::build("", ["2ms", "2ms"])
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
        Network { scenario, topology, folder: tempfile::tempdir().unwrap(), cancel: Cancel::new() }
    }

    /// What this kernel lacks for an engine.
    pub fn lacks(&self, engine: &str) -> Option<String> {
        missing::Host::default().lacks(&engine.parse().unwrap(), &self.scenario)
    }

    pub fn up(&self, engine: &str) -> Up<'_> {
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
        Up { network: self, engine: engine.to_owned(), running }
    }

    /// What ip(8) and nft(8) show of both ends, without what is never the same.
    pub fn snapshot(&self) -> String {
        // GRE's module brings three devices to every namespace, for good.
        let script = "for device in $(ip -o link show | cut -d: -f2 | cut -d@ -f1 | \
             grep -vxE ' *(gre0|gretap0|erspan0)' | sort); do \
             echo $device $(ip -o link show dev $device | grep -o 'master [^ ]*') \
             $(ip -o -4 address show dev $device | awk '{print $4}') \
             $(tc qdisc show dev $device | awk '{print $2}'); done; \
             ip -4 route show table all | sort; ip rule; ip nexthop; nft list ruleset 2>/dev/null";
        let shown = |namespace: &NetNs| {
            let output = namespace.command("sh").args(["-c", script]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        shown(self.topology.home()) + "---\n" + &shown(self.topology.concentrator())
    }

    /// As cables have none before an engine gives them some.
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

    /// Bytes that came down by each link so far.
    fn arrived(&self) -> [u64; 2] {
        [0, 1].map(|link| self.topology.counters(link).down.bytes_out)
    }
}

impl Up<'_> {
    /// A transfer, and the bytes that each link carried of it.
    fn transfer(&self, flows: usize, bytes: usize) -> Result<[u64; 2], String> {
        let before = self.network.arrived();
        let listener = self
            .network
            .topology
            .concentrator()
            .run(|| TcpListener::bind(("0.0.0.0", 0)))
            .unwrap()
            .unwrap();
        let server = SocketAddr::new(self.running.server, listener.local_addr().unwrap().port());
        let each = bytes / flows;
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
        // The counters are read through files; what has arrived is in them.
        let after = self.network.arrived();
        Ok([after[0] - before[0], after[1] - before[1]])
    }

    fn fetch(&self, server: SocketAddr, bytes: usize) -> Result<(), String> {
        let home = self.network.topology.home();
        let connect = || -> std::io::Result<TcpStream> {
            let socket = socket2::Socket::new(
                socket2::Domain::IPV4,
                socket2::Type::STREAM,
                Some(socket2::Protocol::TCP),
            )?;
            if let Some(source) = self.running.source {
                socket.bind(&SocketAddr::new(source, 0).into())?;
            }
            socket.connect_timeout(&server.into(), Duration::from_secs(3))?;
            Ok(socket.into())
        };
        let told = |error: std::io::Error| error.to_string();
        let mut stream = home.run(connect).and_then(|stream| stream).map_err(told)?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(told)?;
        let mut data = Vec::new();
        stream.read_to_end(&mut data).map_err(told)?;
        let right = data.len() == bytes
            && data.iter().enumerate().all(|(n, byte)| *byte == (n / 251) as u8);
        if right { Ok(()) } else { Err(format!("{} of {bytes} bytes came", data.len())) }
    }

    /// Something passes.
    pub fn carries(&self) {
        self.transfer(1, SOME_BYTES).unwrap_or_else(|error| panic!("{}: {error}", self.engine));
    }

    /// Both links carry a good part of a transfer.
    pub fn carries_over_both(&self, spread: Spread) {
        let flows = if spread == Spread::OneFlow { 1 } else { FLOWS };
        let carried =
            self.transfer(flows, BYTES).unwrap_or_else(|error| panic!("{}: {error}", self.engine));
        let least = (BYTES / 10) as u64;
        assert!(carried.iter().all(|bytes| *bytes > least), "{}: {carried:?}", self.engine);
    }

    /// The first cable is pulled and put back; traffic goes on both times.
    pub fn survives_a_pulled_cable(&self) {
        let topology = &self.network.topology;
        topology.apply(0, &LinkChange::Carrier(Carrier::Down)).unwrap();
        self.recovers("without the first cable");
        topology.apply(0, &LinkChange::Carrier(Carrier::Up)).unwrap();
        self.recovers("with the first cable back");
    }

    fn recovers(&self, when: &str) {
        let deadline = Instant::now() + RECOVERED_WITHIN;
        loop {
            match self.transfer(1, SOME_BYTES) {
                Ok(_) => return,
                Err(error) if Instant::now() >= deadline => {
                    panic!("{} {when}: {error}", self.engine)
                }
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Of numbered datagrams sent down at a pace that the links can bear, how
    /// many came after a younger one.
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
                    // Some at a time, as a VM's clock ticks coarsely.
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

    /// Ends its programs and takes its set-up back.
    pub fn down(self) {
        let Up { network, engine, running } = self;
        drop(running);
        for (side, namespace) in
            [("home", network.topology.home()), ("concentrator", network.topology.concentrator())]
        {
            let journal: PathBuf = network.folder.path().join(side).join("journal");
            let failures =
                namespace.run(|| Journal::open(journal).unwrap().undo().unwrap()).unwrap();
            assert!(failures.is_empty(), "{engine}, {side}: {failures:?}");
        }
    }
}
