use crate::support::*;
use braid_simulator::*;
#[test]
fn rekey() {
    let scenario = Scenario::new(vec![link(10, 5, 10), link(5, 5, 30)])
        .traffic(pings().from(secs(117)))
        .lasting(secs(126));
    let mut s = Simulation::new(scenario);
    s.record();
    s.run_until(secs(126));
    for c in s.captured() {
        let b = &c.datagram.bytes;
        if b[0] != 4 { println!("{:?} {:?} kind {} len {}", c.at, c.lane, b[0], b.len()); }
    }
    println!("{:?}", s.report(EndId::Home(0))[0].paths);
    println!("{:?}", s.finish().counters);
}
#[test]
fn rr() {
    let mut scenario = Scenario::new(vec![link(10, 10, 5), link(10, 10, 40)])
        .traffic(constant(Lane::Up, 3000, 1200).from(secs(1)))
        .lasting(secs(6));
    scenario.mode = braid_tunnel::Mode::BalanceRr;
    let o = Simulation::play(scenario);
    println!("{:?} {:?}", o.homes[0], o.concentrator[0]);
    println!("{:?}", &o.flows[0].delivery_times[..20]);
    println!("{:?}", &o.flows[0].delivery_times[o.flows[0].delivery_times.len()-20..]);
}
