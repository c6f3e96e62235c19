use braid_lab::emulator::*;
use braid_lab::topology::*;
use braid_units::*;
use std::time::Duration;
fn model(name: &str, mbit: u64, delay_ms: u64, queue: u64) -> LinkModel {
    let d = DirectionModel {
        capacity: Capacity::Rate(Rate::from_mbit(mbit)),
        delay: Duration::from_millis(delay_ms),
        queue: ByteSize::from_bytes(queue),
        ..DirectionModel::ideal()
    };
    LinkModel { name: name.into(), down: d.clone(), up: d, mtu: 1500, nat: false }
}
fn iperf(t: &Topology, args: &[&str]) -> String {
    let mut s = t
        .concentrator()
        .command("iperf3")
        .args(["-s", "-1"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let o = t
        .home()
        .command("iperf3")
        .args(["-c", "203.0.113.1", "-t", "5", "-f", "m", "-R"])
        .args(args)
        .output()
        .unwrap();
    s.wait().unwrap();
    String::from_utf8_lossy(&o.stdout).lines().rev().take(4).collect::<Vec<_>>().join("\n")
        + &String::from_utf8_lossy(&o.stderr)
}
#[test]
fn gig() {
    for cc in ["cubic", "bbr"] {
        for burst in [1] {
            let _ = burst;
            let t = Topology::build(
                &[model("g1", 1000, 0, 1_000_000), model("g2", 1000, 0, 1_000_000)],
                &TopologyOptions::default(),
            )
            .unwrap();
            println!("{cc} {:?} one link: {}", t.links()[0].backend(), iperf(&t, &["-C", cc]));
            println!(
                "{}",
                String::from_utf8_lossy(
                    &t.concentrator()
                        .command("tc")
                        .args(["-s", "qdisc", "show"])
                        .output()
                        .unwrap()
                        .stdout
                )
            );
            t.mptcp().unwrap();
            println!("mptcp: {}", iperf(&t, &["-m", "-C", cc]));
        }
    }
}
#[test]
fn user() {
    let t = Topology::build(
        &[model("u1", 200, 1, 500_000), model("g2", 1000, 1, 1_000_000)],
        &TopologyOptions::default(),
    )
    .unwrap();
    let c = t.emulator_cpu_time();
    println!("200M: {}", iperf(&t, &["-C", "cubic"]));
    println!("cpu per s {:?}", (t.emulator_cpu_time() - c) / 5);
    let c = t.emulator_cpu_time();
    println!("1G: {}", iperf(&t, &["-C", "cubic", "--bind-dev", "g2"]));
    println!("cpu per s {:?}", (t.emulator_cpu_time() - c) / 5);
}
