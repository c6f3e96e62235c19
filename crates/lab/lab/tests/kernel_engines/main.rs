//! The kernel's engines for real: up, traffic over both links seen in their counters, a link lost
//! and recovered, and nothing left after down. Engines that this kernel lacks are tested in a VM,
//! all in one boot. This test has no harness, since the lab must start with a single thread and
//! starts itself: as `lab …` it is the program, as `inside [ENGINE|lines]…` the test in the VM, as
//! `here [ENGINE]…` the test on this kernel, without arguments the whole test.

mod network;

use braid_lab::LabArgs;
use braid_lab::cancel::Cancel;
use braid_lab::engines::EngineName;
use braid_lab::live::Live;
use braid_lab::plan::Plan;
use braid_lab::run::run;
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
            in_the_vm(&std::env::args().skip(2).collect::<Vec<_>>());
            return ExitCode::SUCCESS;
        }
        Some("here") => {
            braid_lab::topology::prepare_process().expect("a network of its own");
            on_this_kernel(&std::env::args().skip(2).collect::<Vec<_>>());
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
        // Both ends' teamd would request its module at once, and one of them would fail.
        let script = "modprobe -aq ipv6 tun team; exec \"$0\" inside";
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
    on_this_kernel(&[]);
    match vm {
        Ok(_) => what_this_kernel_lacks_is_measured_in_a_vm(),
        Err(missing) => println!("skipped in a VM: {missing}"),
    }
    println!("kernel_engines: ok");
    ExitCode::SUCCESS
}

/// An engine, and how it should behave over two links.
struct Case {
    engine: &'static str,
    spread: Spread,
    lost: Lost,
}

/// The effect of a lost link on an engine.
#[derive(Clone, Copy)]
enum Lost {
    /// Traffic continues over the other link.
    Noticed,
    /// The same; but two such ends need a switch between them: over cables, packets sent from one
    /// port may arrive at one that isn't active, until only one is left.
    NoticedOnSwitches,
    /// It ignores the carrier (or, in the lab's static set-ups, nothing checks it): some packets
    /// are lost until the link is back.
    Unnoticed,
}

impl Case {
    const fn new(engine: &'static str, spread: Spread, lost: Lost) -> Self {
        Case { engine, spread, lost }
    }

    fn check(&self, network: &Network) {
        let engine = self.engine;
        let up = network.up(engine);
        match self.lost {
            Lost::NoticedOnSwitches => up.recovers(self.spread, "at first"),
            _ => up.carries(self.spread),
        }
        network.pull_a_link();
        if !matches!(self.lost, Lost::Unnoticed) {
            up.recovers(Spread::Any, "with a link lost");
        }
        network.put_it_back();
        match self.lost {
            Lost::NoticedOnSwitches => {}
            Lost::Noticed | Lost::Unnoticed => up.recovers(self.spread, "with the link back"),
        }
        up.down();
        println!("{engine}: up, seen by counters, a link lost and back, down");
    }
}

/// Whether it is one of `only`, or all are.
fn is_wanted(case: &Case, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|engine| engine == case.engine)
}

/// Engines of drivers that the host's kernel may lack.
fn in_the_vm(only: &[String]) {
    use Lost::{Noticed, NoticedOnSwitches, Unnoticed};
    for case in [
        // One connection over both cables, which one of them can't carry alone.
        Case::new("bonding:balance-rr", Spread::OneFlow, Noticed),
        Case::new("bonding:active-backup", Spread::OneLink, Noticed),
        Case::new("bonding:balance-xor", Spread::ManyFlows, Noticed),
        Case::new("bonding:broadcast", Spread::Copies, Noticed),
        Case::new("bonding:802.3ad", Spread::ManyFlows, Noticed),
        // Between two hosts it uses one link.
        Case::new("bonding:balance-tlb", Spread::OneLink, NoticedOnSwitches),
        Case::new("bonding:balance-alb", Spread::OneLink, NoticedOnSwitches),
        Case::new("team:roundrobin", Spread::OneFlow, Noticed),
        Case::new("team:activebackup", Spread::OneLink, Noticed),
        Case::new("team:loadbalance", Spread::DealtFlows, Noticed),
        Case::new("team:lacp", Spread::DealtFlows, Noticed),
        Case::new("team:broadcast", Spread::Copies, Noticed),
        Case::new("team:random", Spread::OneFlow, Noticed),
        Case::new("pppoe-multilink", Spread::OneFlow, Noticed),
        Case::new("teql", Spread::OneFlow, Unnoticed),
    ] {
        if is_wanted(&case, only) {
            case.check(&Network::of_cables());
        }
    }
    if !only.is_empty() && !only.iter().any(|word| word == "lines") {
        return;
    }
    // Over routed lines: Ethernet in GRE, on ports whose MTU is the master's.
    for engine in ["teql", "team:roundrobin", "bonding:balance-rr"] {
        let network = Network::of_lines();
        let up = network.up(engine);
        up.carries(Spread::OneFlow);
        up.down();
        println!("{engine}: up, both lines, down");
    }
    multilink_keeps_the_order_where_turns_do_not();
}

/// Over cables of different length, PPP's multilink restores the order of fragments; a bond that
/// takes turns delivers packets as they arrive.
fn multilink_keeps_the_order_where_turns_do_not() {
    let bond = Network::of_unequal_cables();
    let reordered = bond.up("bonding:balance-rr").reordered_datagrams();
    let multilink = Network::of_unequal_cables();
    let up = multilink.up("pppoe-multilink");
    let kept = up.reordered_datagrams();
    assert_eq!(kept, 0, "PPP's multilink keeps the order");
    assert!(reordered > 20, "turns over unequal cables reorder: {reordered}");
    // One TCP connection gets the full rate of both, which it couldn't if order was lost.
    up.carries(Spread::OneFlow);
    println!("pppoe-multilink: in order over unequal cables ({reordered} were not by turns)");
}

/// Engines of routes, marks and MPTCP. Whether `braid up` follows a link that falls silent is
/// tested in `crates/braid/tests/engines`.
fn on_this_kernel(only: &[String]) {
    use Lost::{Noticed, Unnoticed};
    for case in [
        Case::new("ecmp:nexthop", Spread::ManyFlows, Unnoticed),
        Case::new("ecmp:resilient", Spread::ManyFlows, Unnoticed),
        Case::new("pcc", Spread::ManyFlows, Unnoticed),
        Case::new("pcc:flow", Spread::ManyFlows, Unnoticed),
        Case::new("round-robin", Spread::OneFlow, Unnoticed),
        Case::new("mptcp", Spread::Subflows, Noticed),
        Case::new("mptcp:proxy", Spread::Subflows, Noticed),
    ] {
        if !is_wanted(&case, only) {
            continue;
        }
        let network = Network::of_lines();
        match network.lacks(case.engine) {
            Some(lacking) => println!("skipped: {}: this kernel has no {lacking}", case.engine),
            None => case.check(&network),
        }
    }
}

/// A run detects by itself what it needs a VM for, and keeps the figures apart.
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
