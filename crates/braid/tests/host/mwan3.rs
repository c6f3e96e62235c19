//! OpenWrt's mwan3, which marks connections for a link and has routing rules before Braid's, and
//! its SQM, which has queues on the links: neither runs outside OpenWrt, so they are stood in for.

use crate::ruled::{BY_WAN1, BY_WAN2, RULES, TUNNEL, V4, V6, ruled_world, start, whoami};
use crate::world::{assert_unchanged, settled_state, sh};
use braid_linux::netns::NetNs;

/// What mwan3 2.11 sets in the kernel for two links: a table each, also of the LAN; a connection's
/// mark in bits 0x3f00, by the link that it came in by, else as its rules say; rules by mark, and
/// behind them what finds no way is refused. 0x3f00 is for the main table. Its rules here: port 443
/// by wan2, all else by `$1`.
const MWAN3: &str = r#"
set_mwan3() {
    for link in 1 2; do
        for ip in 'ip -4' 'ip -6'; do
            gateway=10.1.$link.1 lan=192.168.7.0/24
            [ "$ip" = 'ip -4' ] || gateway=fd00:$link::1 lan=fd00:77::/64
            $ip route add table $link $lan dev lan0
            $ip route add table $link default via $gateway dev wan$link
            $ip rule add pref $((1000 + link)) iif wan$link lookup $link
            $ip rule add pref $((2000 + link)) fwmark 0x${link}00/0x3f00 lookup $link
            $ip rule add pref $((3000 + link)) fwmark 0x${link}00/0x3f00 unreachable
        done
    done
    for ip in 'ip -4' 'ip -6'; do
        $ip rule add pref 2061 fwmark 0x3d00/0x3f00 blackhole
        $ip rule add pref 2062 fwmark 0x3e00/0x3f00 unreachable
    done
    for program in iptables ip6tables; do
        mangle="$program -t mangle"
        connected='10.1.0.0/16 192.168.7.0/24 10.77.0.0/24 224.0.0.0/3'
        neighbours=icmp
        [ $program = iptables ] || connected='fd00::/8 fe80::/10 ff00::/8' neighbours=ipv6-icmp
        for chain in hook rules; do $mangle -N mwan3_$chain; done
        unmarked='-m mark --mark 0/0x3f00'
        $mangle -A mwan3_hook -p $neighbours -j RETURN
        $mangle -A mwan3_hook $unmarked -j CONNMARK --restore-mark --nfmask 0x3f00 --ctmask 0x3f00
        for link in 1 2; do
            $mangle -A mwan3_hook -i wan$link $unmarked -j MARK --set-xmark 0x${link}00/0x3f00
        done
        for net in $connected; do
            $mangle -A mwan3_hook -d $net $unmarked -j MARK --set-xmark 0x3f00/0x3f00
        done
        $mangle -A mwan3_hook $unmarked -j mwan3_rules
        $mangle -A mwan3_hook -j CONNMARK --save-mark --nfmask 0x3f00 --ctmask 0x3f00
        $mangle -A PREROUTING -j mwan3_hook
        $mangle -A OUTPUT -j mwan3_hook
    done
    # OpenWrt's own firewall.
    nft add table inet fw4
    nft 'add chain inet fw4 srcnat { type nat hook postrouting priority srcnat; }'
    nft 'add rule inet fw4 srcnat oifname { "wan1", "wan2" } masquerade'
}
set_rules() {
    for mangle in 'iptables -t mangle' 'ip6tables -t mangle'; do
        $mangle -F mwan3_rules
        $mangle -A mwan3_rules -p tcp --dport 443 -j MARK --set-xmark 0x200/0x3f00
        $mangle -A mwan3_rules -m mark --mark 0/0x3f00 -j MARK --set-xmark $1/0x3f00
    done
}
"#;

/// What SQM sets on each link: a shaper for what leaves, and by another device one for what comes.
const SQM: &str = "for wan in wan1 wan2; do
    ip link add ifb4$wan type ifb; ip link set ifb4$wan up
    tc qdisc add dev $wan root handle 1: tbf rate 100mbit burst 64kb latency 50ms
    tc qdisc add dev ifb4$wan root handle 1: tbf rate 100mbit burst 64kb latency 50ms
    tc qdisc add dev $wan handle ffff: ingress
    tc filter add dev $wan parent ffff: protocol all prio 10 u32 match u32 0 0 \
        action mirred egress redirect dev ifb4$wan
done";

#[test]
fn what_mwan3_sends_by_a_link_goes_there_and_what_it_leaves_takes_the_tunnel() {
    let Some((mut world, lan)) = ruled_world() else { return };
    if world.home.namespace.command("iptables").arg("--version").output().is_err() {
        eprintln!("SKIPPED: iptables is not installed (try: apt install iptables)");
        return;
    }
    // Its own default: all that has no other rule by a link. Not the tunnel's datagrams, which
    // have their links.
    world.home.sh(&format!("{MWAN3}\nset_mwan3; set_rules 0x100"));
    world.home.sh(SQM);
    let before = settled_state(&world.home.namespace);
    let queues = queues(&world.home.namespace);
    start(&mut world, "", RULES);
    for port in [80, 443] {
        let seen = if port == 443 { BY_WAN2 } else { BY_WAN1 };
        assert_eq!(whoami(&lan, V4, port).unwrap(), seen, "mwan3's rules come first");
    }
    let rules = sh(&world.home.namespace, "ip rule; ip -6 rule");
    let is_mwan3s = |line: &&str| line.contains(" fwmark ") || line.contains("iif wan");
    for rule in before.lines().filter(is_mwan3s) {
        assert!(rules.contains(rule), "{rule} in {rules}");
    }
    // With `use_policy 'default'` in its last rule.
    world.home.sh(&format!("{MWAN3}\nset_rules 0x3f00"));
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN2);
    assert_eq!(whoami(&lan, V6, 443).unwrap(), "fd00:2::2");
    assert_eq!(whoami(&lan, V4, 80).unwrap(), TUNNEL);
    assert_eq!(whoami(&world.home.namespace, V4, 80).unwrap(), TUNNEL);
    assert_eq!(whoami(&lan, V4, 444).unwrap(), BY_WAN2, "by Braid's rule");
    assert!(whoami(&lan, V4, 25).is_err(), "by Braid's rule");
    world.home.wait_for_active_paths(2);
    assert_eq!(queues, self::queues(&world.home.namespace));
    world.home.sh(&format!("{MWAN3}\nset_rules 0x100"));
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
    assert_eq!(queues, self::queues(&world.home.namespace));
}

/// Without what they count.
fn queues(namespace: &NetNs) -> String {
    sh(
        namespace,
        "for wan in wan1 wan2; do tc qdisc show dev $wan; tc qdisc show dev ifb4$wan
         tc filter show dev $wan parent ffff: | grep -v -e installed; done",
    )
}
