//! Prometheus metrics of a group of links, text format 0.0.4. Labels are the group's name, its
//! engine and mode, the names of the config's links, and the direction, so their number is bounded.

use crate::group_status::{DeviceStatus, GroupLinkStatus, GroupStatus};
use crate::metrics::{Text, flag};
use braid_pool::prometheus::escape;

/// All metrics of one group.
pub fn render(status: &GroupStatus) -> String {
    let mut text = Text::default();
    let mode = status.mode.as_deref().unwrap_or_default();
    let group = format!(
        "interface=\"{}\",engine=\"{}\",mode=\"{}\"",
        escape(&status.interface),
        status.engine,
        escape(mode)
    );
    text.family("braid_group_up", "gauge", "The group is up.", [(group, 1.0)]);
    let bare = |value: f64| [(String::new(), value)];
    let uptime = bare(status.uptime_s);
    text.family("braid_group_uptime_seconds", "gauge", "Time since the group came up.", uptime);
    let members = bare(status.links.len() as f64);
    text.family("braid_group_members", "gauge", "Links in the config.", members);
    let troubles = bare(status.troubles.len() as f64);
    text.family("braid_group_troubles", "gauge", "What can't be set up at the moment.", troubles);
    // A group without a device of its own has no carrier to report.
    let device = status.device.iter();
    let carrier = device.clone().map(|device| (String::new(), flag(device.carrier)));
    text.family("braid_group_carrier", "gauge", "Traffic can pass the group's device.", carrier);
    let bytes = device.clone().flat_map(|device| both("", device.rx_bytes, device.tx_bytes));
    text.family("braid_group_bytes_total", "counter", "Bytes of the group's device.", bytes);
    links(&status.links, &mut text);
    text.0
}

/// A link's flag: name, help, value.
type LinkFlag = (&'static str, &'static str, fn(&GroupLinkStatus) -> bool);

const LINK_FLAGS: &[LinkFlag] = &[
    ("braid_group_link_used", "The link is part of the group.", |link| link.used),
    ("braid_group_link_active", "The link carries traffic now.", |link| link.active),
    ("braid_group_link_carrier", "The link's device is up and has a carrier.", |link| {
        link.device.as_ref().is_some_and(|device| device.carrier)
    }),
];

fn links(links: &[GroupLinkStatus], text: &mut Text) {
    for (name, help, value) in LINK_FLAGS {
        let samples = links.iter().map(|link| (label(link), flag(value(link))));
        text.family(name, "gauge", help, samples);
    }
    let counters = |rx: fn(&DeviceStatus) -> u64, tx: fn(&DeviceStatus) -> u64| {
        links.iter().flat_map(move |link| {
            let device = link.device.as_ref();
            device.map(|device| both(&label(link), rx(device), tx(device))).into_iter().flatten()
        })
    };
    let bytes = counters(|device| device.rx_bytes, |device| device.tx_bytes);
    text.family("braid_group_link_bytes_total", "counter", "Bytes of the link's device.", bytes);
    let packets = counters(|device| device.rx_packets, |device| device.tx_packets);
    let help = "Packets of the link's device.";
    text.family("braid_group_link_packets_total", "counter", help, packets);
}

fn label(link: &GroupLinkStatus) -> String {
    format!("link=\"{}\"", escape(&link.name))
}

fn both(labels: &str, rx: u64, tx: u64) -> [(String, f64); 2] {
    let comma = if labels.is_empty() { "" } else { "," };
    [("rx", rx), ("tx", tx)].map(|(direction, value)| {
        (format!("{labels}{comma}direction=\"{direction}\""), value as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_engines::EngineKind;

    #[test]
    fn every_link_is_told_with_its_carrier_and_traffic() {
        let device = |carrier, rx_bytes| DeviceStatus { carrier, rx_bytes, ..Default::default() };
        let link = |name: &str, active, device| GroupLinkStatus {
            name: name.into(),
            interface: "eth1".into(),
            used: active,
            active,
            trouble: None,
            weight: 1,
            standby: false,
            device,
        };
        let status = GroupStatus {
            version: "0".into(),
            interface: "bond0".into(),
            engine: EngineKind::Bonding,
            mode: Some("active-backup".into()),
            pid: 1,
            uptime_s: 5.0,
            addresses: Vec::new(),
            device: Some(device(true, 7)),
            links: vec![
                link("a", true, Some(device(true, 1000))),
                link("b\"", false, Some(device(false, 0))),
                link("gone", false, None),
            ],
            troubles: Vec::new(),
        };
        let text = render(&status);
        for line in [
            r#"braid_group_up{interface="bond0",engine="bonding",mode="active-backup"} 1"#,
            "braid_group_members 3",
            "braid_group_carrier 1",
            r#"braid_group_bytes_total{direction="rx"} 7"#,
            r#"braid_group_link_active{link="a"} 1"#,
            r#"braid_group_link_carrier{link="b\""} 0"#,
            r#"braid_group_link_used{link="gone"} 0"#,
            r#"braid_group_link_bytes_total{link="a",direction="rx"} 1000"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains(r#"bytes_total{link="gone""#), "what isn't there has no traffic");
    }
}
