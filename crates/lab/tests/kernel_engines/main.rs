//! The kernel's engines for real: up, traffic over both links seen by their
//! counters, a link lost and back, down leaves nothing. What this kernel lacks
//! is tested in a VM, all in one boot. This test has no harness, since the lab
//! must start with a single thread and starts itself: as `lab …` it is the
//! program, as `inside` the test in the VM, without arguments the test.

mod network;

use braid_lab::LabArgs;
use braid_lab::cancel::Cancel;
use braid_lab::engines::EngineName;
use braid_lab::live::Live;
use braid_lab::run::{Plan, run};
use braid_lab::scenario::Scenario;
use braid_lab::scratch::Scratch;
use braid_vm::Vm;
use clap::Parser;
use network::{Network, Spread};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
enum Cli {
    Lab(LabArgs),
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("lab") => {
            let Cli::Lab(args) = Cli::parse();
            return braid_lab::execute(args.command);
        }
        Some("inside") => {
            braid_lab::topology::prepare_process().expect("a network of its own");
            in_the_vm();
            return ExitCode::SUCCESS;
        }
        Some("--list") => {
            println!("kernel_engines: test");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let vm = Vm::find();
    if let Ok(vm) = &vm {
        let program = std::env::current_exe().expect("the test's own path");
        let script = "modprobe -aq ipv6 tun; exec \"$0\" inside";
        let output = vm
            .clone()
            .time_limit(Duration::from_secs(900))
            .run(["sh".as_ref(), "-c".as_ref(), script.as_ref(), program.as_os_str()])
            .expect("the VM works");
        print!("{}", output.console);
        assert!(output.success(), "in the VM: status {}", output.status);
    }
    if let Err(error) = braid_lab::topology::prepare_process() {
        println!("skipped: {error}");
        return ExitCode::SUCCESS;
    }
    on_this_kernel();
    match vm {
        Ok(_) => what_this_kernel_lacks_is_measured_in_a_vm(),
        Err(missing) => println!("skipped in a VM: {missing}"),
    }
    println!("kernel_engines: ok");
    ExitCode::SUCCESS
}

/// Engines of drivers that the host's kernel may lack.
fn in_the_vm() {
    // One connection over both cables, which one of them can't carry alone.
    for engine in ["bonding:balance-rr", "team:roundrobin", "pppoe-multilink"] {
        let network = Network::of_cables();
        let before = network.snapshot();
        let up = network.up(engine);
        up.carries_over_both(Spread::OneFlow);
        up.survives_a_pulled_cable();
        up.down();
        assert_eq!(network.snapshot(), before, "{engine}: nothing is left behind");
        println!("{engine}: up, both cables, one lost and back, down");
    }
    // By turns without a look at the carrier, so it isn't asked for more.
    for network in [Network::of_cables(), Network::of_lines()] {
        network.up("teql").carries_over_both(Spread::OneFlow);
    }
    println!("teql: up, both cables, both lines");
    // Ports whose MTU is the master's.
    Network::of_lines().up("team:roundrobin").carries_over_both(Spread::OneFlow);
    println!("team:roundrobin over GRETAP: up, both lines");
    for (engine, spread) in [
        ("bonding:balance-xor", Spread::ManyFlows),
        ("bonding:802.3ad", Spread::ManyFlows),
        ("bonding:broadcast", Spread::OneFlow),
    ] {
        let network = Network::of_cables();
        let before = network.snapshot();
        let up = network.up(engine);
        up.carries_over_both(spread);
        up.down();
        assert_eq!(network.snapshot(), before, "{engine}: nothing is left behind");
        println!("{engine}: up, both cables, down");
    }
    {
        let network = Network::of_cables();
        let up = network.up("bonding:active-backup");
        up.carries();
        up.survives_a_pulled_cable();
        println!("bonding:active-backup: up, one lost and back");
    }
    // Ethernet over routed lines.
    {
        let network = Network::of_lines();
        let before = network.snapshot();
        let up = network.up("bonding:balance-rr");
        up.carries_over_both(Spread::OneFlow);
        up.down();
        assert_eq!(network.snapshot(), before, "nothing is left behind");
        println!("bonding:balance-rr over GRETAP: up, both lines, down");
    }
    multilink_keeps_the_order_where_turns_do_not();
}

/// Over cables of different length, PPP's multilink puts fragments in order
/// again; a bond that takes turns hands packets over as they come.
fn multilink_keeps_the_order_where_turns_do_not() {
    let bond = Network::of_unequal_cables();
    let reordered = bond.up("bonding:balance-rr").reordered_datagrams();
    let multilink = Network::of_unequal_cables();
    let up = multilink.up("pppoe-multilink");
    let kept = up.reordered_datagrams();
    assert_eq!(kept, 0, "PPP's multilink keeps the order");
    assert!(reordered > 20, "turns over unequal cables reorder: {reordered}");
    // One TCP connection has the whole of both, which it can't where order is
    // lost.
    up.carries_over_both(Spread::OneFlow);
    println!("pppoe-multilink: in order over unequal cables ({reordered} were not by turns)");
}

/// Engines of routes, marks and MPTCP.
fn on_this_kernel() {
    for (engine, spread) in [
        ("ecmp:nexthop", Spread::ManyFlows),
        ("ecmp:resilient", Spread::ManyFlows),
        ("pcc", Spread::ManyFlows),
        ("round-robin", Spread::OneFlow),
        ("mptcp:proxy", Spread::OneFlow),
    ] {
        let network = Network::of_lines();
        if let Some(lacking) = network.lacks(engine) {
            println!("skipped: {engine}: this kernel has no {lacking}");
            continue;
        }
        let before = network.snapshot();
        let up = network.up(engine);
        up.carries_over_both(spread);
        let by_journal = engine.starts_with("ecmp") || engine == "pcc";
        up.down();
        if by_journal {
            assert_eq!(network.snapshot(), before, "{engine}: nothing is left behind");
        }
        println!("{engine}: up, both lines");
    }
}

/// A run finds out by itself what it needs a VM for, and keeps the figures apart.
fn what_this_kernel_lacks_is_measured_in_a_vm() {
    let text = r#"name = "cables"
duration = "1s"
[[link]]
name = "one"
ethernet = true
down = { rate = "10Mbit", delay = "1ms" }
[[link]]
name = "two"
ethernet = true
down = { rate = "10Mbit", delay = "1ms" }
[[traffic]]
kind = "tcp"
"#;
    let scenario = Scenario::parse("cables.toml", text, Path::new(".")).expect("a scenario");
    let mut host = braid_lab::engines::missing::Host::default();
    let bonding: EngineName = "bonding:balance-rr".parse().expect("an engine");
    if host.lacks(&bonding, &scenario).is_none() {
        println!("skipped: this kernel has bonding and netem: no VM is needed");
        return;
    }
    let plan = Plan {
        scenario,
        engines: vec!["ecmp:nexthop".parse().expect("an engine"), bonding],
        repeat: 1,
        baseline: true,
        keep_logs: None,
        program: std::env::current_exe().expect("the test's own path"),
    };
    let scratch = Scratch::temporary().expect("a folder");
    let findings = run(&plan, &scratch, &Cancel::new(), &Live::silent());
    assert!(findings.failures.is_empty(), "{:?}", findings.failures);
    let inside = findings.in_vm.as_ref().expect("a report of the VM's");
    assert!(inside.host.vm && !findings.report.host.vm);
    let engines = |report: &braid_lab::report::Report| -> Vec<String> {
        report.records.iter().map(|record| record.run.engine.clone()).collect()
    };
    assert_eq!(engines(&findings.report), ["ecmp:nexthop"]);
    assert_eq!(engines(inside), ["bonding:balance-rr"]);
    assert!(inside.notes.iter().any(|note| note.contains("bonding")), "{:?}", inside.notes);
    // Each has the baseline of its own kernel.
    let sum = |report: &braid_lab::report::Report| report.records[0].run.sum_of_links_mbps;
    let (here, there) = (sum(&findings.report).unwrap(), sum(inside).unwrap());
    assert!(here > 5.0 && there > 5.0 && here != there, "{here} {there}");
    assert!(findings.results().vm.is_some());
    println!("a VM was started for bonding");
}
