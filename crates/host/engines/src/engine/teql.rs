//! TEQL (net/sched/sch_teql.c): a queueing discipline on each link, and a device that distributes
//! packets to them in turn.

use crate::Feature;
use crate::group::{Group, Trouble};
use crate::operation::Operation;
use crate::port::Port;

pub(crate) fn check(group: &Group, found: &mut Vec<Trouble>) {
    let number = group.name.as_str().strip_prefix("teql").map(str::parse::<u8>);
    if !matches!(number, Some(Ok(_))) {
        found.push(Trouble::new(
            "name",
            format!("TEQL's devices are teql0, teql1…, not {}", group.name),
            "write name = \"teql0\"",
        ));
    }
}

pub(crate) fn needs() -> Vec<Feature> {
    vec![Feature::Teql]
}

pub(crate) fn operations(group: &Group, ports: &[Port]) -> Vec<Operation> {
    let mut operations =
        vec![Operation::Module { name: "sch_teql".into(), provides: group.name.clone() }];
    // Packets arrive over links, but replies leave through the TEQL device; if a link has no
    // address of its own, even the loose check of `rp_filter` drops them. The stricter of `all` and
    // the device's setting applies.
    let check = |device: &str| Operation::Sysctl {
        key: format!("net/ipv4/conf/{device}/rp_filter"),
        value: "0".into(),
    };
    operations.push(check("all"));
    for port in ports {
        operations.push(check(port.device.as_str()));
        operations.push(Operation::Teql { device: port.device.clone(), teql: group.name.clone() });
        operations.push(Operation::Up { device: port.device.clone() });
    }
    operations
}
