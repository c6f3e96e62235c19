#!/bin/sh
# Writes what ip(8), tc(8) and wg(8) ask of the kernel, as hexadecimal digits: a line
# with "# " and the command, then the request. The requests of our own are compared
# with them (src/netlink/tests.rs). The kernel need not have what is asked for.
#
#   unshare -n sh capture.sh >captured.txt      as root, with strace, wg and cc
set -eu

# A command's only request that changes something.
ask() {
    echo "# $*"
    strace -qq -o "$told" -e trace=sendmsg -e write=all "$@" >/dev/null 2>&1 || true
    # Of a dump's lines: " | 00010  74 00 00 … 6b 00 00  .......... |"
    awk '/^sendmsg/ { hex = "" } /^ \| / { bytes = substr($0, 11, 48); gsub(/ /, "", bytes); hex = hex bytes }
         END { print hex }' "$told"
}

here=$(dirname "$0")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
told=$scratch/told
ip link set lo up
# Devices of the numbers that the test gives them; what they are doesn't matter.
for device in eth1:11 eth2:12 all0:13; do
    ip link add "${device%:*}" index "${device#*:}" type veth peer name "p${device#*:}"
done
ip addr add 192.0.2.7/24 dev eth1
ip -6 addr add 2001:db8::7/64 dev eth1 nodad
ip link set eth1 up
ip link set p11 up

ip -V | sed 's/^/# by /'
while read -r command; do
    case $command in
    '' | '#'*) ;;
    *) ask $command ;;
    esac
done <<'COMMANDS'
ip link add new0 type bond mode balance-rr miimon 100 updelay 200 downdelay 300 packets_per_slave 2 resend_igmp 3 num_grat_arp 4
ip link add new0 type bond mode active-backup arp_interval 100 arp_ip_target 10.9.0.2,10.9.0.3 arp_validate all primary_reselect better resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy layer2 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy layer2+3 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy layer3+4 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy encap2+3 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy encap3+4 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy vlan+srcmac resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode broadcast miimon 100 updelay 0 downdelay 0 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode 802.3ad miimon 100 updelay 0 downdelay 0 xmit_hash_policy layer3+4 lacp_rate fast min_links 2 resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-tlb miimon 100 updelay 0 downdelay 0 primary_reselect failure resend_igmp 1 num_grat_arp 1
ip link add new0 type bond mode balance-alb miimon 100 updelay 0 downdelay 0 primary_reselect always resend_igmp 1 num_grat_arp 1
ip link set all0 type bond primary eth2
ip link add new0 type gretap local 192.0.2.7 remote 203.0.113.9 key 7001 ttl 64 dev eth1
ip link add new0 type ip6gretap local 2001:db8::7 remote 2001:db8:9::9 key 7001 ttl 64 encaplimit none dev eth1
ip link add new0 type vxlan id 7001 local 192.0.2.7 remote 203.0.113.9 dstport 4789 ttl 64 dev eth1
ip link add new0 type vxlan id 7001 local 2001:db8::7 remote 2001:db8:9::9 dstport 4789 ttl 64 dev eth1
ip link add new0 type wireguard
ip link set eth1 master all0
ip link set eth1 nomaster
ip link set eth1 up
ip link set eth1 down
ip link set eth1 up
ip link set eth1 mtu 1400
ip link del eth2
tc qdisc add dev eth1 root teql0
tc qdisc del dev eth1 root
ip nexthop add id 71 via 192.0.2.1 dev eth1 onlink protocol 177
ip nexthop add id 72 via 2001:db8::1 dev eth1 protocol 177
ip -4 nexthop add id 73 dev eth1 protocol 177
ip nexthop replace id 70 group 71,3/73,1
ip nexthop replace id 70 group 71/73 type resilient buckets 64 idle_timer 5 unbalanced_timer 9
ip nexthop del id 70
ip route add 10.20.0.0/16 nhid 70 src 192.0.2.7 table 537760 protocol static
ip route add default via 192.0.2.1 dev eth1 table 537823 protocol static
ip route add 192.0.2.0/24 dev eth1 table 537823 protocol static
ip route add 10.20.0.0/16 via 10.9.0.2 dev eth1 onlink metric 50 table 254 protocol static
ip -6 route add default via 2001:db8::1 dev eth1 table 537823 protocol static
ip rule add from 192.0.2.7/32 lookup 537823 priority 30223
ip -6 rule add from all fwmark 0x5001 lookup 537824 priority 30224
ip rule add from all lookup 254 priority 30160 suppress_prefixlength 0
ip addr add 10.9.0.1/24 dev eth1
ip -6 addr add 2001:db8:1::7/64 dev eth1 nodad
ip mptcp limits set subflows 5 add_addr_accepted 6
ip mptcp endpoint add 192.0.2.7 dev eth1 id 177 subflow backup fullmesh
ip mptcp endpoint add 2001:db8::7 dev eth1 id 178 signal
ip mptcp endpoint del id 177
COMMANDS

# The settings of a device with one peer, by the kernel that wireguard.c plays.
echo "# by $(wg --version)"
cc -shared -fPIC -o "$scratch/wireguard.so" "$here/wireguard.c"
for endpoint in 203.0.113.9:51822 '[2001:db8:9::9]:51822'; do
    echo "# wg setconf new0 $endpoint"
    LD_PRELOAD="$scratch/wireguard.so" wg setconf new0 /dev/stdin 2>&1 <<CONFIG
[Interface]
PrivateKey = 4P7vUkzCkGRzEkx1uWkVuXyrd+zmHi9hR3j0R7vRoVk=
ListenPort = 51821
FwMark = 0x5101
[Peer]
PublicKey = hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=
Endpoint = $endpoint
PersistentKeepalive = 25
AllowedIPs = 0.0.0.0/0, ::/0
CONFIG
done
