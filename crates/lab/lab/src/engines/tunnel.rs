use super::process::{Process, Side};
use super::{Bench, EngineError, Running};
use crate::scenario::{CongestionControl, TunnelMode};
use crate::topology::CONCENTRATOR_V4;
use crate::traffic::Streams;
use braid_handshake::{PrivateKey, os_random};
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Addresses inside the tunnel.
const CONCENTRATOR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const HOME: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The concentrator's UDP port.
const PORT: u16 = 51_900;
/// Its TCP port for TLS.
const TLS_PORT: u16 = 443;
/// After the first answer, the other links still join and search their MTUs: what happens once in a
/// tunnel's life isn't measured.
const SETTLE: Duration = Duration::from_secs(2);

/// How long a daemon may take to create its control socket.
const SOCKET_WITHIN: Duration = Duration::from_secs(3);

/// How TCP connections are split.
#[derive(Clone, Copy)]
pub(super) struct SplitTcp {
    pub(super) congestion: Option<CongestionControl>,
}

impl SplitTcp {
    fn section(self) -> String {
        match self.congestion {
            Some(congestion) => format!("[split_tcp]\ncongestion = \"{}\"\n", congestion.name()),
            None => "[split_tcp]\n".to_owned(),
        }
    }
}

/// How Braid carries traffic; by default like without settings.
#[derive(Clone, Copy, Default)]
pub(super) struct Variant {
    /// How packets are scheduled.
    pub(super) mode: Option<TunnelMode>,
    /// Whether TCP connections are split.
    pub(super) split: Option<SplitTcp>,
    /// Whether over TLS instead of UDP.
    pub(super) tls: bool,
}

/// Braid itself: the running program, once at each end.
pub(super) fn bring_up(variant: Variant, bench: &Bench<'_>) -> Result<Running, EngineError> {
    let Variant { mode, split, tls } = variant;
    let keys = [PrivateKey::generate(&mut os_random()), PrivateKey::generate(&mut os_random())];
    let [home_key, concentrator_key] = &keys;
    let mode = mode.or(bench.scenario.tunnel.mode).unwrap_or(TunnelMode::ADAPTIVE);
    let shared = |name: &str, address: Ipv4Addr, last: u8| {
        let mut text = format!(
            "[interface]\nname = \"braid0\"\nprivate_key_file = {}\n\
             addresses = [\"{address}/24\", \"fd77::{last}/64\"]\nmode = \"{}\"\n\
             control = {}\nstate_dir = {}\nwake_latency = \"{}\"\n",
            quoted(&bench.scratch.join(format!("{name}.key"))),
            mode.word(),
            quoted(&bench.scratch.join(format!("{name}.sock"))),
            quoted(&bench.scratch.join(format!("{name}.state"))),
            bench.scenario.tunnel.wake_latency,
        );
        if let Some(hash) = mode.xor_hash() {
            let _ = writeln!(text, "xor_hash = \"{hash}\"");
        }
        if let Some(mtu) = bench.scenario.tunnel.mtu {
            let _ = writeln!(text, "mtu = {mtu}");
        }
        text
    };
    let routing = match split {
        Some(split) => split.section(),
        None => "[routing]\nleave_host_alone = true\n".to_owned(),
    };

    let (listen_tls, transport, fallback) = match tls {
        true => (
            format!("listen_tls = [\"0.0.0.0:{TLS_PORT}\"]\n"),
            "transport = \"tls\"\n",
            format!("fallback_port = {TLS_PORT}\n"),
        ),
        false => Default::default(),
    };
    let mut concentrator = shared("concentrator", CONCENTRATOR, 1);
    let _ = write!(
        concentrator,
        "listen = [\"0.0.0.0:{PORT}\"]\n{listen_tls}{routing}[[peer]]\nname = \"home\"\n\
         public_key = \"{}\"\nallowed_ips = [\"{HOME}/32\", \"fd77::2/128\"]\n",
        home_key.public_key()
    );
    let mut home = shared("home", HOME, 2);
    home.push_str(&routing);
    for (link, place) in bench.scenario.links.iter().zip(bench.topology.links()) {
        let _ = write!(home, "[[link]]\nname = \"{0}\"\ninterface = \"{0}\"\n", place.device());
        home.push_str(transport);
        if let Some(tier) = link.tier {
            let _ = writeln!(home, "tier = {tier}");
        }
        if let Some(cap) = link.cap {
            let _ = writeln!(home, "cap = {{ down = \"{cap}\", up = \"{cap}\" }}");
        }
    }
    let _ = write!(
        home,
        "[[peer]]\nname = \"concentrator\"\npublic_key = \"{}\"\n\
         endpoints = [\"{CONCENTRATOR_V4}:{PORT}\"]\n{fallback}\
         allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n",
        concentrator_key.public_key()
    );

    let sides = [
        (Side::Concentrator, "concentrator", concentrator, concentrator_key),
        (Side::Home, "home", home, home_key),
    ];
    let mut processes = Vec::new();
    for (side, name, config, key) in sides {
        processes.push(start(side, name, &config, key, bench)?);
        // The server must be up before its clients; otherwise their order would be random.
        wait_for(&bench.scratch.join(format!("{name}.sock")), bench);
    }
    let mut running = Running::kernel(CONCENTRATOR.into(), Streams::Tcp);
    running.processes = processes;
    running.wait_until_ready(bench)?;
    bench.cancel.sleep(SETTLE);
    Ok(running)
}

/// Waits briefly until a daemon has created its control socket; whether it works is checked with
/// traffic.
fn wait_for(socket: &Path, bench: &Bench<'_>) {
    let deadline = Instant::now() + SOCKET_WITHIN;
    while !socket.exists() && Instant::now() < deadline && !bench.cancel.is_cancelled() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start(
    side: Side,
    name: &str,
    config: &str,
    key: &PrivateKey,
    bench: &Bench<'_>,
) -> Result<Process, EngineError> {
    let path = |extension: &str| bench.scratch.join(format!("{name}.{extension}"));
    let written = || EngineError::io(format!("can't write the config of the {side}"));
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path("key"))
        .and_then(|mut file| writeln!(file, "{}", &*key.to_base64()))
        .map_err(written())?;
    fs::write(path("toml"), config).map_err(written())?;
    fs::create_dir_all(path("state")).map_err(written())?;
    let namespace = match side {
        Side::Home => bench.topology.home(),
        Side::Concentrator => bench.topology.concentrator(),
    };
    let mut command = namespace.command(bench.program);
    command.args(["up", "--foreground", "--config"]).arg(path("toml"));
    Process::start(side, command, path("log"))
}

/// A path as a TOML string.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}
