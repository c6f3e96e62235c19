use super::credential::key_file;
use super::key_file::KeyFile;
use super::keyword::keyword_enum;
use super::name::DeviceName;
use super::network::{device_address, socket_address};
use super::path;
use super::section::{Placed, Section};
use braid_units::{ByteSize, Ratio, WakeLatency};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::path::{Path, PathBuf};

/// `[interface]`: this end of the tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Name of the TUN or TAP device.
    pub name: DeviceName,
    /// File with our private key; a credential of the service is one, too.
    pub private_key_file: KeyFile,
    /// Addresses of the device, with the prefix of their network.
    pub addresses: Vec<IpNet>,
    /// MTU of the device, bytes; the links' MTUs don't matter for it.
    pub mtu: u16,
    /// What is carried.
    pub layer: Layer,
    /// The scheduler's policy.
    pub mode: Mode,
    /// What `balance-xor` hashes.
    pub xor_hash: XorHash,
    /// UDP addresses to be reached at; empty at home: any free port.
    pub listen: Vec<SocketAddr>,
    /// TCP addresses on which homes connect by TLS, and strangers find a web server.
    pub listen_tls: Vec<SocketAddr>,
    /// The certificate presented there, with its key; by default a self-signed one.
    pub tls_certificate: Option<CertificateFiles>,
    /// The control socket's path.
    pub control: PathBuf,
    /// The group (name or number) whose members may use it like root; `None` for root's group.
    pub control_group: Option<String>,
    /// Undo journal, quota counters, learnt rates.
    pub state_dir: PathBuf,
    /// Where Prometheus may read metrics, besides the control socket.
    pub metrics: Option<SocketAddr>,
    /// The bridge that the TAP device becomes a port of; it must exist when the tunnel comes up.
    pub bridge: Option<DeviceName>,
    /// At the concentrator: homes may measure what the tunnel carries.
    pub speed_test: bool,
    /// At the concentrator: homes may reach each other through the tunnel.
    pub home_to_home: bool,
    /// At the concentrator: homes are asked to move to another one (draining).
    pub draining: bool,
    /// Share of the links' capacity that duplicates and parities may take.
    pub redundancy_budget: Ratio,
    /// Bound of queues and reorder buffers of one peer.
    pub memory_per_peer: ByteSize,
    /// Maximum wake-up latency of the host's processors while packets arrive often.
    pub wake_latency: WakeLatency,
    /// How many processors carry homes.
    pub workers: Workers,
}

/// How many workers a concentrator has: each carries its own homes on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each processor.
    Auto,
    /// This many.
    Count(NonZeroU8),
}

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

keyword_enum! {
    /// What the tunnel carries.
    Layer {
        /// IP packets, by a TUN device.
        L3 = "l3",
        /// Ethernet frames, by a TAP device.
        L2 = "l2",
    }
}

keyword_enum! {
    /// How packets are spread over the links. All but `adaptive` and `overflow`
    /// behave as the modes of Linux' bonding driver with the same name
    /// (Documentation/networking/bonding.rst).
    Mode {
        /// Each chunk goes where it arrives first.
        Adaptive = "adaptive",
        /// Packets in turn, without reordering protection.
        BalanceRr = "balance-rr",
        /// A flow's hash selects its link.
        BalanceXor = "balance-xor",
        /// One link; another when it fails.
        ActiveBackup = "active-backup",
        /// Everything on every link.
        Broadcast = "broadcast",
        /// As `adaptive`, but a higher tier only when the lower ones are full.
        Overflow = "overflow",
    }
}

/// What a config that doesn't say so means.
impl Default for Layer {
    fn default() -> Layer {
        Layer::L3
    }
}

/// What a config that doesn't say so means.
impl Default for Mode {
    fn default() -> Mode {
        Mode::Adaptive
    }
}

keyword_enum! {
    /// What `balance-xor` hashes (bonding's `xmit_hash_policy`).
    XorHash {
        /// MAC addresses.
        Layer2 = "layer2",
        /// MAC and IP addresses.
        Layer23 = "layer2+3",
        /// IP addresses and ports.
        Layer34 = "layer3+4",
    }
}

/// Smallest MTU of IPv6 links (RFC 8200, section 5).
pub(super) const IPV6_MIN_MTU: u16 = 1280;
/// Largest MTU of a TAP device: the longest packet less the Ethernet header
/// (Linux, drivers/net/tun.c).
pub(super) const ETHERNET_MAX_MTU: u16 = 65_535 - 14;
/// Unless the config says otherwise.
pub(super) const STATE_DIR: &str = "/var/lib/braid";
const MIN_MEMORY: u64 = 1 << 20;
/// Each worker needs a queue of the device, of which the kernel allows 256 (`MAX_TAP_QUEUES`), and
/// more threads than processors are useless.
const MOST_WORKERS: u8 = 64;

pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Interface>> {
    // Other engines were handled before.
    let _ = section.parsed::<String>("engine");
    let device = |name: &str| name.parse::<DeviceName>().ok();
    let name = section.parsed("name").or_else(|| device("braid0"));
    let private_key_file = key_file(&mut section, "private_key_file", base);
    if private_key_file.is_none() {
        section.missing(
            "private_key_file",
            "create one with `braid keygen --out FILE` and name it here",
        );
    }
    let addresses = section.list_by("addresses", device_address).unwrap_or_default();
    let mtu = section.integer("mtu", 576..=65535).unwrap_or(1500);
    let layer = section.parsed("layer").unwrap_or_default();
    let mode = section.parsed("mode").unwrap_or_default();
    let xor_hash = section.parsed("xor_hash").unwrap_or(XorHash::Layer34);
    let listen = section.list_by("listen", socket_address).unwrap_or_default();
    let listen_tls = section.list_by("listen_tls", socket_address).unwrap_or_default();
    let tls_certificate = certificate_files(&mut section, base, !listen_tls.is_empty());
    let control = path::socket(&mut section, "control", base);
    let control_group = section.parsed_by("control_group", group_name);
    let state_dir = path::place(&mut section, "state_dir", base);
    let state_dir = state_dir.unwrap_or_else(|| PathBuf::from(STATE_DIR));
    let metrics = section.parsed_by("metrics", socket_address);
    let bridge = section.parsed("bridge");
    let speed_test = section.boolean("speed_test").unwrap_or(true);
    let home_to_home = section.boolean("home_to_home").unwrap_or(false);
    let draining = section.boolean("draining").unwrap_or(false);
    let redundancy_budget =
        section.parsed("redundancy_budget").unwrap_or_else(|| Ratio::from_fraction(0.05));
    let memory_per_peer = memory_per_peer(&mut section);
    let wake_latency = section.parsed("wake_latency").unwrap_or_default();
    let workers = workers(&mut section, layer, !listen.is_empty());
    if listen.is_empty() {
        refuse_what_listeners_have(&mut section, !listen_tls.is_empty(), draining);
    }
    let places = section.finish();
    let name = name?;
    let value = Interface {
        control: control.unwrap_or_else(|| PathBuf::from(format!("/run/braid/{name}.sock"))),
        control_group,
        name,
        private_key_file: private_key_file?,
        addresses,
        mtu,
        layer,
        mode,
        xor_hash,
        listen,
        listen_tls,
        tls_certificate,
        state_dir,
        metrics,
        bridge,
        speed_test,
        home_to_home,
        draining,
        redundancy_budget,
        memory_per_peer,
        wake_latency,
        workers,
    };
    Some(Placed { value, places })
}

/// How much of a peer's packets is buffered in total.
fn memory_per_peer(section: &mut Section<'_, '_>) -> ByteSize {
    let memory =
        section.parsed("memory_per_peer").unwrap_or_else(|| ByteSize::from_bytes(32 << 20));
    if memory.bytes() < MIN_MEMORY {
        section.wrong(
            "memory_per_peer",
            format!("interface.memory_per_peer of {memory} is too little for reordering"),
            "write at least \"1MiB\"",
        );
    }
    memory
}

fn workers(section: &mut Section<'_, '_>, layer: Layer, listens: bool) -> Workers {
    let workers = match section.integer_or_word("workers", 1..=i64::from(MOST_WORKERS), "auto") {
        Some(None) => Workers::Auto,
        Some(Some(count)) => NonZeroU8::new(count).map_or(Workers::ONE, Workers::Count),
        None => Workers::ONE,
    };
    if section.has("workers") && workers != Workers::ONE {
        if !listens {
            section.wrong(
                "workers",
                "interface.workers without listen: workers share homes, which only a concentrator \
                 has",
                "remove it",
            );
        } else if layer == Layer::L2 {
            section.wrong(
                "workers",
                "interface.workers with layer = \"l2\": only one worker can learn which home has \
                 which MAC address",
                "remove it, or write layer = \"l3\"",
            );
        }
    }
    workers
}

/// Refuses settings that only a concentrator has.
fn refuse_what_listeners_have(section: &mut Section<'_, '_>, listens_tls: bool, draining: bool) {
    if listens_tls {
        section.wrong(
            "listen_tls",
            "interface.listen_tls without listen: TLS is for homes whose UDP doesn't pass",
            "add listen = [\"0.0.0.0:51900\"]",
        );
    }
    if draining {
        section.wrong(
            "draining",
            "interface.draining without listen: only a concentrator has homes that can leave it",
            "remove it",
        );
    }
}

impl Workers {
    /// What a config that doesn't say so means.
    pub const ONE: Workers = Workers::Count(NonZeroU8::MIN);

    /// Their number on a machine with this many processors.
    pub fn count(self, processors: NonZeroUsize) -> NonZeroU8 {
        let most = NonZeroU8::new(MOST_WORKERS).unwrap_or(NonZeroU8::MIN);
        match self {
            Self::Auto => NonZeroU8::try_from(processors).unwrap_or(most).min(most),
            Self::Count(count) => count,
        }
    }
}

/// Accepts the names that groupadd(8) accepts.
fn group_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    match !text.is_empty() && text.len() <= 32 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not the name of a group, such as \"braid\"")),
    }
}

fn certificate_files(
    section: &mut Section<'_, '_>,
    base: &Path,
    listens: bool,
) -> Option<CertificateFiles> {
    let chain = path::file(section, "tls_certificate_file", base);
    let key = path::file(section, "tls_key_file", base);
    let hint = "write listen_tls, tls_certificate_file and tls_key_file, or without the last two \
                let it have a certificate of its own";
    match (chain, key) {
        (None, None) => None,
        (Some(chain), Some(key)) => {
            if !listens {
                let what =
                    "interface.tls_certificate_file without listen_tls: it would not be used";
                section.wrong("tls_certificate_file", what, hint);
            }
            Some(CertificateFiles { chain, key })
        }
        (Some(_), None) => {
            let what = "interface.tls_certificate_file without tls_key_file";
            section.wrong("tls_certificate_file", what, hint);
            None
        }
        (None, Some(_)) => {
            let what = "interface.tls_key_file without tls_certificate_file";
            section.wrong("tls_key_file", what, hint);
            None
        }
    }
}
