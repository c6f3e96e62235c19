//! Every packet takes the next link in turn: nftables counts and marks packets, policy rules send
//! each mark over its link. There are no weights, and no protection from the reordering that
//! unequal links cause.

use super::process::{Side, run_to_end, shell};
use super::{Bench, EngineError, Running};
use crate::topology::{CONCENTRATOR_V4, HOME_V4};
use crate::traffic::Streams;
use std::fmt::Write;
use std::time::Duration;

const COMMAND_LIMIT: Duration = Duration::from_secs(20);
const FIRST_TABLE: u32 = 7_400;
const FIRST_RULE: u32 = 19_000;

pub(super) fn bring_up(bench: &Bench<'_>) -> Result<Running, EngineError> {
    if let Some(link) = bench.scenario.links.iter().find(|link| link.model.nat) {
        return Err(EngineError::Unfit(format!(
            "round-robin: the NAT of {:?} would give each packet of a connection another address",
            link.model.name
        )));
    }
    for side in [Side::Concentrator, Side::Home] {
        let text = script(side, bench);
        let namespace = match side {
            Side::Home => bench.topology.home(),
            Side::Concentrator => bench.topology.concentrator(),
        };
        let log = bench.scratch.join(format!("{side}-setup.log"));
        run_to_end(side, shell(namespace, &text), &text, &log, COMMAND_LIMIT)?;
    }
    let mut running = Running::kernel(CONCENTRATOR_V4.into(), Streams::Tcp);
    running.source = Some(HOME_V4.into());
    Ok(running)
}

fn script(side: Side, bench: &Bench<'_>) -> String {
    let links = bench.topology.links();
    let (other, mut text) = match side {
        Side::Home => (CONCENTRATOR_V4, format!("ip addr add {HOME_V4}/32 dev lo\n")),
        Side::Concentrator => (HOME_V4, String::new()),
    };
    // Writing to a String can't fail.
    for (number, link) in (0u32..).zip(links) {
        let addresses = link.addresses();
        let (device, gateway) = match side {
            Side::Home => (link.device(), addresses.gateway_v4),
            Side::Concentrator => (link.provider_device(), addresses.home_v4),
        };
        let (table, rule) = (FIRST_TABLE + number, FIRST_RULE + number);
        let _ = write!(
            text,
            "ip route add default via {gateway} dev {device} table {table}\n\
             ip rule add fwmark {:#x} lookup {table} priority {rule}\n",
            number + 1
        );
        if number == 0 {
            // For look-ups before the mark is set.
            let _ = writeln!(text, "ip route add {other}/32 via {gateway} dev {device}");
        }
    }
    let count = links.len();
    let _ = write!(
        text,
        "nft -f - <<'RULES'\ntable ip braid_round_robin {{ chain out {{\n\
         type route hook output priority mangle;\n\
         ip daddr {other} meta mark set numgen inc mod {count} offset 1\n}}\n}}\nRULES\n"
    );
    format!("set -e\n{text}")
}
