use super::view::{Line, Tone};
use braid_control::config::Transport;
use braid_control::status::{
    DeviceDrops, DnsStatus, FleetStatus, LinkStatus, PathState, PathStatus, PeerStatus, RuleDoes,
    RuleStatus, SplitTcpStatus, Status, Traffic,
};
use braid_pool::untrusted::one_line;
use braid_units::{ByteSize, Ratio};

/// The status for people, at most `width` columns wide if that is given.
pub fn lines(status: &Status, width: Option<usize>) -> Vec<Line> {
    let mut lines = vec![Line::toned(
        format!(
            "{}  {}  mode {}  mtu {}  up {}",
            status.interface,
            status.layer,
            status.mode,
            status.mtu,
            lasting(status.uptime_s)
        ),
        Tone::Head,
    )];
    let attention = |text: String| Line::toned(text, Tone::Attention);
    let drops = status.drops;
    if drops != DeviceDrops::default() {
        lines.push(Line::from(format!(
            "device: {} packets not fetched in time, {} refused by the kernel, {} malformed",
            drops.not_fetched, drops.refused, drops.malformed
        )));
    }
    if !status.listen.is_empty() {
        let addresses: Vec<String> = status.listen.iter().map(ToString::to_string).collect();
        lines.push(Line::from(format!("listening on {}", addresses.join(", "))));
    }
    lines.extend(status.fleet.iter().flat_map(about_fleet));
    if status.draining {
        lines.push(attention(
            "draining: homes are asked to move to another concentrator".to_owned(),
        ));
    }
    for link in status.links.iter().filter(|link| !link.present || link.trouble.is_some()) {
        let why = link.trouble.as_deref().unwrap_or("doesn't exist");
        lines.push(attention(format!("link {}: {why}", link.name)));
    }
    lines.extend(status.traffic.as_ref().and_then(beside_the_tunnel).map(attention));
    lines.extend(about_names(&status.dns, !status.listen.is_empty()).map(Line::from));
    lines.extend(status.split_tcp.as_ref().map(about_split).map(Line::from));
    lines.extend(about_rules(&status.rules).map(Line::from));
    lines.extend(status.warnings.iter().map(|warning| attention(format!("warning: {warning}"))));
    for peer in &status.peers {
        lines.push(Line::from(String::new()));
        lines.extend(render_peer(peer, &status.links, width));
    }
    lines
}

/// A duration in two units.
fn lasting(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A remark on where traffic goes, if it bypasses the tunnel.
fn beside_the_tunnel(traffic: &Traffic) -> Option<String> {
    let what = match traffic {
        Traffic::Tunnel => return None,
        Traffic::Direct { link: Some(link) } => format!("goes direct over {link}"),
        Traffic::Direct { link: None } => "takes the host's own routes".to_owned(),
        Traffic::Blocked => "is blocked (kill switch)".to_owned(),
    };
    Some(format!("traffic: no peer answers; it {what}"))
}

fn about_rules(rules: &[RuleStatus]) -> Option<String> {
    let connections: u64 = rules.iter().map(|rule| rule.connections).sum();
    let stuck = |rule: &&RuleStatus| rule.does == RuleDoes::Direct && rule.link.is_none();
    let stuck: Vec<&str> = rules.iter().filter(stuck).map(|rule| rule.name.as_str()).collect();
    let without = match stuck.as_slice() {
        [] => String::new(),
        names => format!("; no link works for {}", names.join(", ")),
    };
    let count = rules.len();
    (count > 0).then(|| format!("rules: {count}, {connections} connections{without}"))
}

fn about_fleet(fleet: &FleetStatus) -> Vec<Line> {
    let reached = match (fleet.reachable, fleet.reached_s) {
        (true, _) => "its registry answers".to_owned(),
        (false, Some(seconds)) => {
            format!("its registry last answered {} ago", lasting(seconds as f64))
        }
        (false, None) => "its registry has not answered yet".to_owned(),
    };
    let text = format!(
        "fleet: this is {}, of {} concentrators with {} homes; {reached}",
        fleet.name, fleet.concentrators, fleet.homes
    );
    let tone = if fleet.reachable { Tone::Plain } else { Tone::Attention };
    let troubles = fleet.troubles.iter();
    let troubles = troubles.map(|trouble| Line::toned(format!("  {trouble}"), Tone::Attention));
    [Line::toned(text, tone)].into_iter().chain(troubles).collect()
}

fn about_split(split: &SplitTcpStatus) -> String {
    let mut text = format!("split TCP: {} connections of {}", split.open, split.accepted);
    for (count, what) in
        [(split.unreachable, "not reached"), (split.over_limit, "refused, too many")]
    {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

fn about_names(dns: &DnsStatus, concentrator: bool) -> Option<String> {
    let join = |addresses: &[std::net::IpAddr]| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let (silent, instead) = (join(&dns.silent), join(&dns.instead));
    match (dns.silent.is_empty(), dns.instead.is_empty()) {
        (true, true) if dns.by_resolved => {
            Some("names: systemd-resolved queries go through the tunnel".to_owned())
        }
        (true, true) => None,
        (true, false) if concentrator => Some(format!("name server for homes: {instead}")),
        (true, false) => Some(format!("name server: {instead} instead of the links' own")),
        (false, true) => Some(format!("name server: {silent} doesn't answer")),
        (false, false) => {
            Some(format!("name server: {silent} doesn't answer; using {instead} instead"))
        }
    }
}

fn render_peer(peer: &PeerStatus, links: &[LinkStatus], width: Option<usize>) -> Vec<Line> {
    let state = if peer.connected { "connected" } else { "not connected" };
    let mut head = format!("peer {}: {state}", peer.name);
    if let Some(endpoint) = peer.endpoint {
        head.push_str(&format!(", {endpoint}"));
    }
    if let Some(age) = peer.last_handshake_s {
        head.push_str(&format!(", handshake {} ago", lasting(age)));
    }
    let tone = if peer.connected { Tone::Head } else { Tone::Fault };
    let head = Line::toned(head, tone);
    let mut lines: Vec<String> = Vec::new();
    let stands_in = peer.stands_in_for.iter().map(|owner| format!("  stands in for {owner}"));
    let served_by = peer.served_by.iter().map(|other| format!("  {other} now stands in for it"));
    lines.extend(stands_in.chain(served_by));
    lines.extend(peer.draining.then(|| "  is draining".to_owned()));
    lines.extend(match peer.served_here {
        Some(false) => Some("  served by another concentrator".to_owned()),
        Some(true) => Some("  served here, and has another concentrator to move to".to_owned()),
        None => None,
    });
    lines.extend(peer.trouble.iter().map(|trouble| format!("  {trouble}")));
    lines.extend([
        match peer.last_handshake_s {
            // Accepted packets wait or are dropped.
            None if !peer.connected => {
                format!("  nothing received or sent yet, {} for it", size(peer.tx_bytes))
            },
            _ => format!("  received {}, sent {}", size(peer.rx_bytes), size(peer.tx_bytes)),
        },
        format!(
            "  queue {} in {} packets, dropped {}, marked {}; repaired {}, recovered {}, given up {}",
            size(peer.queue.bytes),
            peer.queue.packets,
            peer.queue.drops,
            peer.queue.marks,
            peer.repair.repaired,
            peer.repair.recovered,
            peer.repair.abandoned,
        ),
    ]);
    if peer.over_limit_packets > 0 {
        lines.push(format!("  dropped: {} packets over its rate limit", peer.over_limit_packets));
    }
    if peer.refused_packets + peer.isolated_packets > 0 {
        lines.push(format!(
            "  dropped: {} packets malformed or from foreign addresses, {} to other homes",
            peer.refused_packets, peer.isolated_packets
        ));
    }
    let lines = [head].into_iter().chain(lines.into_iter().map(Line::from));
    lines.chain(paths(peer, links, width)).collect()
}

/// A table of the peer's paths, and their sum.
fn paths(peer: &PeerStatus, links: &[LinkStatus], width: Option<usize>) -> Vec<Line> {
    if peer.paths.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![PATH_HEAD.map(str::to_owned).to_vec()];
    rows.extend(peer.paths.iter().map(|path| path_row(path, links)));
    if peer.paths.len() > 1 {
        rows.push(sum_row(&peer.paths));
    }
    // Of interest only if it isn't as it should be.
    if peer.paths.iter().any(|path| path.transport != Transport::Udp) {
        let by = peer.paths.iter().map(|path| path.transport.as_str());
        let cells = std::iter::once("BY").chain(by).chain(std::iter::once(""));
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.insert(1, cell.to_owned());
        }
    }
    if let Some(width) = width {
        narrow(&mut rows, width.saturating_sub(INDENT.len()));
    }
    let tones = peer.paths.iter().map(|path| match path.state {
        PathState::Active | PathState::Standby => Tone::Plain,
        PathState::Probing | PathState::Suspect | PathState::OverQuota => Tone::Attention,
        PathState::Down => Tone::Fault,
    });
    let tones = [Tone::Head].into_iter().chain(tones).chain([Tone::Plain]);
    let rows = columns(&rows).into_iter().map(|row| format!("{INDENT}{row}"));
    rows.zip(tones).map(|(row, tone)| Line::toned(row, tone)).collect()
}

const INDENT: &str = "  ";
/// The columns that are dropped first if there is no room.
const LEAST_WANTED: [&str; 8] = ["MTU", "UPMAX", "DELAY", "TIER", "BY", "QUOTA", "LOSS", "RTT"];

/// Drops columns until lines fit in this many characters, or only the most important are left.
fn narrow(rows: &mut [Vec<String>], width: usize) {
    let is_wide =
        |rows: &[Vec<String>]| columns(rows).iter().any(|line| line.chars().count() > width);
    for name in LEAST_WANTED {
        if !is_wide(rows) {
            return;
        }
        let column = rows.first().and_then(|head| head.iter().position(|cell| cell == name));
        if let Some(column) = column {
            for row in rows.iter_mut() {
                row.remove(column);
            }
        }
    }
}

/// `braid status --help` explains them.
pub const PATH_HEAD: [&str; 11] =
    ["LINK", "STATE", "TIER", "RTT", "DELAY", "DOWN", "UP", "UPMAX", "LOSS", "MTU", "QUOTA"];

fn path_row(path: &PathStatus, links: &[LinkStatus]) -> Vec<String> {
    let quota = links
        .iter()
        .find(|link| link.name == path.link)
        .and_then(|link| link.quota.as_ref())
        .map(|quota| format!("{} of {}", size(quota.used_bytes), size(quota.limit_bytes)));
    vec![
        path.link.clone(),
        path.state.as_str().to_owned(),
        path.tier.to_string(),
        optional(path.srtt_ms, |ms| format!("{ms:.1}ms")),
        optional(path.one_way_delta_ms, |ms| format!("{ms:+.1}ms")),
        optional(path.rate_rx_mbps, |mbps| format!("{mbps:.2}Mbit")),
        optional(path.rate_tx_mbps, |mbps| format!("{mbps:.2}Mbit")),
        optional(path.capacity_tx_mbps, |mbps| format!("{mbps:.2}Mbit")),
        measured_share(path.loss),
        path.mtu.to_string(),
        quota.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn sum_row(paths: &[PathStatus]) -> Vec<String> {
    let sum = |of: fn(&PathStatus) -> Option<f64>| {
        format!("{:.2}Mbit", paths.iter().filter_map(of).sum::<f64>())
    };
    let mut row = vec![String::new(); PATH_HEAD.len()];
    let cells = [
        ("LINK", "all".to_owned()),
        ("DOWN", sum(|path| path.rate_rx_mbps)),
        ("UP", sum(|path| path.rate_tx_mbps)),
    ];
    for (name, text) in cells {
        let column = PATH_HEAD.iter().position(|head| *head == name);
        if let Some(cell) = column.and_then(|column| row.get_mut(column)) {
            *cell = text;
        }
    }
    row
}

fn optional(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// A measured share, without false precision.
pub fn measured_share(fraction: f64) -> String {
    Ratio::from_fraction((fraction * 1e4).round() / 1e4).to_string()
}

fn size(bytes: u64) -> String {
    ByteSize::from_bytes(bytes).to_string()
}

/// Left-aligned columns, two spaces apart; line breaks in cells are escaped.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::config::{Layer, Mode};
    use braid_control::status::QuotaStatus;

    fn status() -> Status {
        Status {
            rules: Vec::new(),
            split_tcp: None,
            alerts: Vec::new(),
            version: "1".into(),
            interface: "braid0".into(),
            pid: 1,
            layer: Layer::L3,
            mode: Mode::Overflow,
            mtu: 1500,
            drops: DeviceDrops { not_fetched: 5, refused: 1, malformed: 0 },
            uptime_s: 61.9,
            draining: false,
            fleet: None,
            listen: Vec::new(),
            links: vec![
                LinkStatus {
                    name: "dsl".into(),
                    interface: None,
                    present: true,
                    trouble: None,
                    portal: None,
                    tier: 0,
                    metered: false,
                    standby: false,
                    quota: Some(QuotaStatus {
                        limit_bytes: 20_000_000_000,
                        used_bytes: 1_500_000_000,
                        period_start_unix: None,
                        period_end_unix: None,
                    }),
                },
                LinkStatus {
                    name: "lte".into(),
                    interface: Some("wwan0".into()),
                    present: false,
                    trouble: Some("no interface wwan0".into()),
                    portal: None,
                    tier: 1,
                    metered: false,
                    standby: false,
                    quota: None,
                },
            ],
            dns: DnsStatus::default(),
            traffic: None,
            warnings: Vec::new(),
            troubles: Vec::new(),
            peers: vec![PeerStatus {
                name: "concentrator".into(),
                connected: true,
                endpoint: "203.0.113.1:51900".parse().ok(),
                last_handshake_s: Some(12.0),
                rx_bytes: 2_000_000,
                paths: vec![PathStatus {
                    link: "dsl".into(),
                    state: PathState::Active,
                    srtt_ms: Some(31.26),
                    rate_rx_mbps: Some(6.0),
                    rate_tx_mbps: Some(0.0),
                    capacity_tx_mbps: Some(1.5),
                    loss: 0.005,
                    mtu: 1464,
                    ..PathStatus::default()
                }],
                ..PeerStatus::default()
            }],
        }
    }

    #[test]
    fn a_person_sees_peers_paths_and_what_is_missing() {
        let status = status();
        let expected = "\
braid0  l3  mode overflow  mtu 1500  up 1 min 1 s
device: 5 packets not fetched in time, 1 refused by the kernel, 0 malformed
link lte: no interface wwan0

peer concentrator: connected, 203.0.113.1:51900, handshake 12 s ago
  received 2MB, sent 0B
  queue 0B in 0 packets, dropped 0, marked 0; repaired 0, recovered 0, given up 0
  LINK  STATE   TIER  RTT     DELAY  DOWN      UP        UPMAX     LOSS  MTU   QUOTA
  dsl   active  0     31.3ms  -      6.00Mbit  0.00Mbit  1.50Mbit  0.5%  1464  1.50GB of 20GB";
        let text = |lines: Vec<Line>| {
            lines.into_iter().map(|line| line.text).collect::<Vec<_>>().join("\n")
        };
        let all = lines(&status, None);
        assert_eq!(all[0].tone, Tone::Head);
        assert_eq!(all[2].tone, Tone::Attention);
        assert_eq!(text(all), expected);
        // With a second path there is a sum; if there is no room, the least important columns go.
        let mut two = status.clone();
        let path =
            PathStatus { link: "lte".into(), state: PathState::Down, ..PathStatus::default() };
        two.peers[0].paths.push(PathStatus { rate_rx_mbps: Some(1.5), ..path });
        let shown = lines(&two, Some(60));
        let table: Vec<&Line> = shown.iter().filter(|line| line.text.starts_with("  ")).collect();
        let table = &table[2..];
        assert!(table.iter().all(|line| line.text.chars().count() <= 60), "{table:?}");
        assert_eq!(table[0].text, "  LINK  STATE   RTT     DOWN      UP        LOSS");
        assert_eq!((table[2].tone, table[3].tone), (Tone::Fault, Tone::Plain));
        assert_eq!(table[3].text, "  all                   7.50Mbit  0.00Mbit");
        for width in [0, 1, 20, 40] {
            lines(&two, Some(width));
        }
    }

    #[test]
    fn times_have_two_units() {
        let shown = [0.4, 59.9, 189.0, 3600.0, 90_061.0, -1.0].map(lasting);
        assert_eq!(shown, ["0 s", "59 s", "3 min 9 s", "1 h 0 min", "1 d 1 h", "0 s"]);
    }
}
