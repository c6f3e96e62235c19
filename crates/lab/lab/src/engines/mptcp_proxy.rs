//! Multipath TCP for programs without support for it: Braid's proxy at both ends, as processes of
//! this program.

use super::process::{Process, Side, run_to_end, shell};
use super::{Bench, EngineError, Running};
use crate::topology::CONCENTRATOR_V4;
use crate::traffic::Streams;
use braid_mptcp_proxy::{Access, End, Home, Proxy, Rules};
use clap::Args;
use ipnet::IpNet;
use std::io;
use std::time::Duration;

const PORT: u16 = 18_262;
/// "bp" in ASCII.
const MARK: u32 = 0x6270;
/// A proxy's message when it accepts connections.
const LISTENS: &str = "listens on port";
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
const COMMAND_LIMIT: Duration = Duration::from_secs(20);

/// `braid lab mptcp-proxy`.
#[derive(Debug, Args)]
pub struct MptcpProxyArgs {
    /// The end with the servers
    #[arg(long)]
    far: bool,
}

/// Listens and serves until it is ended.
pub(crate) fn serve(args: &MptcpProxyArgs) -> io::Result<()> {
    let end = if args.far {
        // There is nobody else in the lab's own network.
        let all = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok());
        let all: Vec<IpNet> = all.collect();
        End::Far(Access { homes: all.clone(), servers: all })
    } else {
        End::Home(Home { far_end: Some(CONCENTRATOR_V4.into()), far_port: PORT, mark: MARK })
    };
    let proxy = Proxy::listen(end, PORT)?;
    println!("{LISTENS} {PORT}");
    proxy.serve();
    Ok(())
}

/// The kernel's path manager knows all links, and nftables redirects all of the home's TCP to its
/// proxy.
pub(super) fn bring_up(bench: &Bench<'_>) -> Result<Running, EngineError> {
    bench.topology.mptcp()?;
    let mut running = Running::kernel(CONCENTRATOR_V4.into(), Streams::Tcp);
    let rules = Rules { port: PORT, mark: MARK, toward: Vec::new() };
    let chains = rules.chains();
    let text = format!("nft -f - <<'RULES'\ntable inet braid_mptcp {{\n{chains}}}\nRULES");
    let log = bench.scratch.join("home-setup.log");
    let home = bench.topology.home();
    run_to_end(Side::Home, shell(home, &text), &text, &log, COMMAND_LIMIT)?;
    let sides = [
        (Side::Concentrator, bench.topology.concentrator(), Some("--far")),
        (Side::Home, home, None),
    ];
    for (side, namespace, option) in sides {
        let mut command = namespace.command(bench.program);
        command.args(["lab", "mptcp-proxy"]).args(option);
        let log = bench.scratch.join(format!("{side}-proxy.log"));
        running.processes.push(Process::start(side, command, log)?);
    }
    // Pings are answered by the kernel, without the proxies.
    running.wait_until(LISTENS_WITHIN, bench, |running| {
        let deaf = running.processes.iter().find(|process| !process.has_said(&[LISTENS]));
        Ok(deaf.map(|process| format!("{}: the proxy does not listen", process.side())))
    })?;
    Ok(running)
}
