//! `braid up` with those of the kernel's engines that this kernel may lack, in a
//! second one: bonding, team, TEQL, PPPoE multilink, GRETAP; also by the scripts
//! that `braid export` writes. One machine for all of them; the script tells how
//! each one went.

use braid_vm::Vm;
use std::time::Duration;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines_in_vm/in_vm.sh");

/// One of each kind: a boot with all of the script's takes minutes
/// (`braid lab vm -- bash crates/braid/tests/engines_in_vm/in_vm.sh $(which braid)`),
/// and the lab's tests bring up the other modes.
const ENGINES: [&str; 14] = [
    "bonding-balance-rr",
    "bonding-balance-rr-script",
    "bonding-balance-rr-unequal",
    "bonding-active-backup",
    "bonding-802.3ad",
    "team-lacp",
    "team-lacp-script",
    "teql",
    "teql-script",
    "pppoe-multilink",
    "pppoe-multilink-script",
    "bonding-over-gretap",
    "bonding-over-gretap-script",
    "bonding-over-vxlan",
];
/// What those tell besides: whether packets overtook each other.
const ORDERS: [&str; 2] = ["bonding-balance-rr-unequal-order", "pppoe-multilink-order"];

#[test]
fn engines_that_a_kernel_may_lack_work_at_both_ends() {
    let vm = match Vm::find() {
        Ok(vm) => vm.time_limit(Duration::from_secs(1800)),
        Err(unavailable) => {
            eprintln!("SKIPPED: no second kernel here: {unavailable}");
            return;
        }
    };
    let command = ["bash", SCRIPT, BRAID].into_iter().chain(ENGINES);
    let output = vm.run(command).unwrap();
    let told = &output.console;
    let failed: Vec<&str> = told.lines().filter(|line| line.contains("FAILED")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for engine in ENGINES.into_iter().chain(ORDERS) {
        let line = format!("ok {engine}");
        assert!(told.lines().any(|told| told.trim() == line), "{line} is missing in\n{told}");
    }
}
