//! Prometheus metrics, text format 0.0.4. Labels are the names of the config's peers and links, and
//! the direction, so their number is bounded.

use crate::status::{AlertStatus, PathState, PathStatus, PeerStatus, RuleStatus, Status, Traffic};
use braid_pool::prometheus::escape;
use std::fmt::Write;

/// The text's `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of one tunnel.
pub fn render(status: &Status) -> String {
    let mut text = Text::default();
    let tunnel = format!("interface=\"{}\",mode=\"{}\"", escape(&status.interface), status.mode);
    text.family("braid_up", "gauge", "The tunnel is up.", [(tunnel, 1.0)]);
    let uptime = [(String::new(), status.uptime_s)];
    text.family("braid_uptime_seconds", "gauge", "Time since the tunnel came up.", uptime);
    let version = [(format!("version=\"{}\"", escape(&status.version)), 1.0)];
    text.family("braid_info", "gauge", "The program's version.", version);
    let mtu = [(String::new(), f64::from(status.mtu))];
    text.family("braid_device_mtu_bytes", "gauge", "MTU of the tunnel's device.", mtu);
    let warnings = [(String::new(), status.warnings.len() as f64)];
    let help = "Conditions on the host that work against the tunnel: see braid status.";
    text.family("braid_warnings", "gauge", help, warnings);
    let silent = [(String::new(), status.dns.silent.len() as f64)];
    text.family("braid_dns_silent_servers", "gauge", "Name servers that don't answer.", silent);
    traffic(status, &mut text);
    let drops = [
        ("not_fetched", status.drops.not_fetched),
        ("refused", status.drops.refused),
        ("malformed", status.drops.malformed),
    ];
    let drops = drops.map(|(why, count)| (format!("reason=\"{why}\""), count as f64));
    text.family("braid_device_drops_total", "counter", "Packets lost at the device.", drops);
    links(status, &mut text);
    rules(status, &mut text);
    split_tcp(status, &mut text);
    fleet(status, &mut text);
    alerts(status, &mut text);
    peers(&status.peers, &mut text);
    paths(&status.peers, &mut text);
    text.0
}

fn traffic(status: &Status, text: &mut Text) {
    let Some(traffic) = &status.traffic else { return };
    let now = match traffic {
        Traffic::Tunnel => "tunnel",
        Traffic::Direct { .. } => "direct",
        Traffic::Blocked => "blocked",
    };
    let ways = ["tunnel", "direct", "blocked"];
    let ways = ways.map(|way| (format!("goes=\"{way}\""), flag(way == now)));
    text.family("braid_traffic", "gauge", "Where traffic goes: 1 for the current way.", ways);
}

fn alerts(status: &Status, text: &mut Text) {
    type Metric = (&'static str, &'static str, &'static str, fn(&AlertStatus) -> Option<f64>);
    const METRICS: [Metric; 5] = [
        ("braid_alert_waiting_events", "gauge", "Events waiting to be delivered.", |alert| {
            Some(alert.waiting as f64)
        }),
        ("braid_alert_delivered_total", "counter", "Messages that were delivered.", |alert| {
            Some(alert.delivered as f64)
        }),
        ("braid_alert_given_up_total", "counter", "Events that were never delivered.", |alert| {
            Some(alert.given_up as f64)
        }),
        ("braid_alert_failing", "gauge", "The last attempt to deliver failed.", |alert| {
            Some(flag(alert.trouble.is_some()))
        }),
        (
            "braid_alert_last_delivery_timestamp_seconds",
            "gauge",
            "When a message was last delivered.",
            |alert| alert.last_delivered_unix.map(|unix| unix as f64),
        ),
    ];
    for (name, kind, help, value) in METRICS {
        let label = |alert: &AlertStatus| format!("alert=\"{}\"", escape(&alert.name));
        let rows = status.alerts.iter().filter_map(|alert| Some((label(alert), value(alert)?)));
        text.family(name, kind, help, rows);
    }
}

fn links(status: &Status, text: &mut Text) {
    let label = |name: &str| format!("link=\"{}\"", escape(name));
    let present = status.links.iter().map(|link| (label(&link.name), flag(link.present)));
    text.family("braid_link_present", "gauge", "The link's device and address exist.", present);
    let standby = status.links.iter().map(|link| (label(&link.name), flag(link.standby)));
    text.family("braid_link_standby", "gauge", "Used only when no other link works.", standby);
    let tier = status.links.iter().map(|link| (label(&link.name), f64::from(link.tier)));
    text.family("braid_link_tier", "gauge", "Lower tiers are filled first.", tier);
    let trouble = status.links.iter().map(|link| (label(&link.name), flag(link.trouble.is_some())));
    text.family(
        "braid_link_trouble",
        "gauge",
        "The link isn't used: braid status says why.",
        trouble,
    );
    let portal = status.links.iter().map(|link| (label(&link.name), flag(link.portal.is_some())));
    text.family(
        "braid_link_wants_login",
        "gauge",
        "Its network requires a login (captive portal).",
        portal,
    );
    let quotas =
        || status.links.iter().filter_map(|link| link.quota.as_ref().map(|quota| (link, quota)));
    let used = quotas().map(|(link, quota)| (label(&link.name), quota.used_bytes as f64));
    text.family("braid_link_quota_used_bytes", "gauge", "Bytes used in this period.", used);
    let limit = quotas().map(|(link, quota)| (label(&link.name), quota.limit_bytes as f64));
    text.family("braid_link_quota_limit_bytes", "gauge", "Bytes allowed in a period.", limit);
    let end = quotas()
        .filter_map(|(link, quota)| Some((label(&link.name), quota.period_end_unix? as f64)));
    let help = "When the next quota period begins.";
    text.family("braid_link_quota_period_end_timestamp_seconds", "gauge", help, end);
}

fn rules(status: &Status, text: &mut Text) {
    let each = |value: fn(&RuleStatus) -> u64| {
        let samples = status.rules.iter().map(move |rule| {
            let labels = format!("rule=\"{}\",does=\"{}\"", escape(&rule.name), rule.does.as_str());
            (labels, value(rule) as f64)
        });
        samples.collect::<Vec<_>>()
    };
    let help = "Connections that a rule matched.";
    text.family("braid_rule_connections_total", "counter", help, each(|rule| rule.connections));
    let help = "Bytes sent by the initiators of a rule's connections.";
    text.family("braid_rule_bytes_total", "counter", help, each(|rule| rule.bytes));
}

fn fleet(status: &Status, text: &mut Text) {
    let Some(fleet) = &status.fleet else { return };
    let one = |value: f64| [(String::new(), value)];
    let help = "The fleet's registry answered the last request.";
    text.family("braid_fleet_registry_reachable", "gauge", help, one(flag(fleet.reachable)));
    let help = "Homes that the fleet has, as last known.";
    text.family("braid_fleet_homes", "gauge", help, one(fleet.homes as f64));
    let help = "Concentrators that the fleet has, as last known.";
    text.family("braid_fleet_concentrators", "gauge", help, one(fleet.concentrators as f64));
}

fn split_tcp(status: &Status, text: &mut Text) {
    let Some(split) = &status.split_tcp else { return };
    let open = [(String::new(), split.open as f64)];
    text.family("braid_split_tcp_connections", "gauge", "TCP connections split now.", open);
    let began = [
        ("split", split.accepted),
        ("unreachable", split.unreachable),
        ("over_limit", split.over_limit),
        ("reset", split.reset),
    ];
    let began = began.map(|(what, count)| (format!("outcome=\"{what}\""), count as f64));
    let help = "TCP connections that were split, and those refused or reset.";
    text.family("braid_split_tcp_connections_total", "counter", help, began);
    let bytes = [("tx", split.tx_bytes), ("rx", split.rx_bytes)];
    let bytes = bytes.map(|(way, count)| (format!("direction=\"{way}\""), count as f64));
    let help = "Payload bytes of split TCP connections.";
    text.family("braid_split_tcp_bytes_total", "counter", help, bytes);
}

/// One metric of each peer: name, type, help, value.
type PeerMetric = (&'static str, &'static str, &'static str, fn(&PeerStatus) -> f64);

const PEER_METRICS: &[PeerMetric] = &[
    ("braid_peer_connected", "gauge", "A session exists and a path works.", |peer| {
        flag(peer.connected)
    }),
    ("braid_peer_replaced", "gauge", "Another peer is standing in for it.", |peer| {
        flag(peer.served_by.is_some())
    }),
    ("braid_peer_draining", "gauge", "The concentrator says that it is draining.", |peer| {
        flag(peer.draining)
    }),
    (
        "braid_peer_served_elsewhere",
        "gauge",
        "The home says that another concentrator serves it.",
        |peer| flag(peer.served_here == Some(false)),
    ),
    ("braid_peer_announced", "gauge", "Its addresses are in the table to announce.", |peer| {
        flag(peer.announced)
    }),
    ("braid_peer_trouble", "gauge", "Something is wrong: braid status says what.", |peer| {
        flag(peer.trouble.is_some())
    }),
    ("braid_queue_packets", "gauge", "Packets waiting at the entry.", |peer| {
        peer.queue.packets as f64
    }),
    ("braid_reordering_packets", "gauge", "Packets waiting for an earlier one.", |peer| {
        peer.reordering_packets as f64
    }),
    ("braid_parity_sent_total", "counter", "Erasure-code symbols sent.", |peer| {
        peer.repair.parity_sent as f64
    }),
    ("braid_duplicates_received_total", "counter", "Copies thrown away on arrival.", |peer| {
        peer.repair.duplicates_received as f64
    }),
    ("braid_queue_bytes", "gauge", "Bytes waiting at the entry.", |peer| peer.queue.bytes as f64),
    ("braid_queue_drops_total", "counter", "Packets dropped by the AQM.", |peer| {
        peer.queue.drops as f64
    }),
    ("braid_queue_marks_total", "counter", "Packets ECN-marked by the AQM.", |peer| {
        peer.queue.marks as f64
    }),
    ("braid_memory_bytes", "gauge", "Memory held for the peer.", |peer| peer.memory_bytes as f64),
    ("braid_retransmitted_total", "counter", "Chunks sent again.", |peer| {
        peer.repair.retransmitted as f64
    }),
    ("braid_repaired_total", "counter", "Chunks that arrived by being sent again.", |peer| {
        peer.repair.repaired as f64
    }),
    ("braid_duplicated_total", "counter", "Chunks sent twice on purpose.", |peer| {
        peer.repair.duplicated as f64
    }),
    ("braid_recovered_total", "counter", "Chunks rebuilt by erasure coding.", |peer| {
        peer.repair.recovered as f64
    }),
    (
        "braid_peer_refused_packets_total",
        "counter",
        "Packets from the peer that were malformed or not from its addresses.",
        |peer| peer.refused_packets as f64,
    ),
    (
        "braid_peer_isolated_packets_total",
        "counter",
        "Packets from the peer to other homes, which it may not reach.",
        |peer| peer.isolated_packets as f64,
    ),
    (
        "braid_peer_over_limit_packets_total",
        "counter",
        "Packets from the peer dropped because of its rate limit.",
        |peer| peer.over_limit_packets as f64,
    ),
    ("braid_abandoned_total", "counter", "Packets abandoned.", |peer| peer.repair.abandoned as f64),
];

fn peers(peers: &[PeerStatus], text: &mut Text) {
    let label = |peer: &PeerStatus| format!("peer=\"{}\"", escape(&peer.name));
    for (name, kind, help, value) in PEER_METRICS {
        text.family(name, kind, help, peers.iter().map(|peer| (label(peer), value(peer))));
    }
    let handshake = peers.iter().filter_map(|peer| Some((label(peer), peer.last_handshake_s?)));
    let help = "Time since the last handshake was completed.";
    text.family("braid_peer_last_handshake_seconds", "gauge", help, handshake);
    let bytes = peers.iter().flat_map(|peer| {
        let label = label(peer);
        [
            (format!("{label},direction=\"rx\""), peer.rx_bytes as f64),
            (format!("{label},direction=\"tx\""), peer.tx_bytes as f64),
        ]
    });
    text.family("braid_peer_bytes_total", "counter", "Bytes of inner packets.", bytes);
}

fn paths(peers: &[PeerStatus], text: &mut Text) {
    let each = |value: &dyn Fn(&PathStatus) -> Option<f64>| -> Vec<(String, f64)> {
        let rows = peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)));
        rows.filter_map(|(peer, path)| Some((path_labels(peer, path), value(path)?))).collect()
    };
    let by = peers.iter().flat_map(|peer| {
        let labels = move |path: &PathStatus| {
            format!("{},transport=\"{}\"", path_labels(peer, path), path.transport)
        };
        peer.paths.iter().map(move |path| (labels(path), flag(path.state == PathState::Active)))
    });
    text.family("braid_path_transport", "gauge", "Paths that carry data, by transport.", by);
    let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1e3);
    let active = each(&|path| Some(flag(path.state == PathState::Active)));
    text.family("braid_path_active", "gauge", "The path carries data.", active);
    let states = peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)));
    let states = states.flat_map(|(peer, path)| {
        let labels = path_labels(peer, path);
        PathState::ALL.iter().map(move |state| {
            (format!("{labels},state=\"{}\"", state.as_str()), flag(path.state == *state))
        })
    });
    text.family("braid_path_state", "gauge", "1 for the state that the path is in.", states);
    let rtt = each(&|path| seconds(path.srtt_ms));
    text.family("braid_path_srtt_seconds", "gauge", "Smoothed round-trip time.", rtt);
    let min_rtt = each(&|path| seconds(path.min_rtt_ms));
    text.family(
        "braid_path_min_rtt_seconds",
        "gauge",
        "Minimum of recent round-trip times.",
        min_rtt,
    );
    let delta = each(&|path| seconds(path.one_way_delta_ms));
    let help = "One-way delay beyond the fastest path's.";
    text.family("braid_path_one_way_delta_seconds", "gauge", help, delta);
    let jitter = each(&|path| seconds(path.jitter_ms));
    text.family("braid_path_jitter_seconds", "gauge", "Variation of round-trip times.", jitter);
    let queue = each(&|path| seconds(path.queue_ms));
    text.family("braid_path_queue_seconds", "gauge", "Estimated delay in the link's queue.", queue);
    let loss = each(&|path| Some(path.loss));
    text.family("braid_path_loss_ratio", "gauge", "Share of packets lost recently.", loss);
    let mtu = each(&|path| Some(f64::from(path.mtu)));
    text.family("braid_path_mtu_bytes", "gauge", "Largest datagram payload.", mtu);
    let flight = each(&|path| Some(path.in_flight_bytes as f64));
    text.family("braid_path_in_flight_bytes", "gauge", "Bytes not yet acknowledged.", flight);
    let lost = each(&|path| Some(path.lost_packets as f64));
    text.family("braid_path_lost_packets_total", "counter", "Packets lost.", lost);
    let both = |rx: &dyn Fn(&PathStatus) -> Option<f64>,
                tx: &dyn Fn(&PathStatus) -> Option<f64>| {
        let mut rows: Vec<(String, f64)> = Vec::new();
        for (direction, values) in [("rx", each(rx)), ("tx", each(tx))] {
            let labelled = values
                .into_iter()
                .map(|(labels, value)| (format!("{labels},direction=\"{direction}\""), value));
            rows.extend(labelled);
        }
        rows
    };
    let rate = both(&|path| path.rate_rx_mbps.map(|mbps| mbps * 1e6), &|path| {
        path.rate_tx_mbps.map(|mbps| mbps * 1e6)
    });
    text.family("braid_path_rate_bits_per_second", "gauge", "Traffic lately.", rate);
    let capacity = each(&|path| path.capacity_tx_mbps.map(|mbps| mbps * 1e6));
    let help = "Sending rate that the path was measured to carry.";
    text.family("braid_path_capacity_bits_per_second", "gauge", help, capacity);
    let bytes = both(&|path| Some(path.rx_bytes as f64), &|path| Some(path.tx_bytes as f64));
    text.family("braid_path_bytes_total", "counter", "UDP payload bytes.", bytes);
    let packets = both(&|path| Some(path.rx_packets as f64), &|path| Some(path.tx_packets as f64));
    text.family("braid_path_packets_total", "counter", "Datagrams.", packets);
}

fn path_labels(peer: &PeerStatus, path: &PathStatus) -> String {
    format!("peer=\"{}\",link=\"{}\"", escape(&peer.name), escape(&path.link))
}

pub(crate) fn flag(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

/// Metrics being written.
#[derive(Default)]
pub(crate) struct Text(pub(crate) String);

impl Text {
    /// Writes a metric's head and samples. Two paths of one link to one peer (IPv4 and IPv6) have
    /// the same labels: their counters are added up, and of two gauges the larger one counts.
    pub(crate) fn family(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        let mut merged: Vec<(String, f64)> = Vec::new();
        for (labels, value) in samples {
            match merged.iter_mut().find(|(known, _)| *known == labels) {
                Some((_, sum)) if kind == "counter" => *sum += value,
                Some((_, largest)) => *largest = largest.max(value),
                None => merged.push((labels, value)),
            }
        }
        if merged.is_empty() {
            return;
        }
        // Writing to a String can't fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in merged {
            let braced = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "{name}{braced} {value}");
        }
    }
}
