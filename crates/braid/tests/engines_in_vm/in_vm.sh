#!/bin/bash
# The kernel's engines that a host may lack, brought up by braid at both ends of
# two links: near (this namespace) and far. Prints "ok NAME" or "FAILED NAME: WHY"
# for each. Runs as root of a machine of its own.
#   in_vm.sh BRAID [NAME]...
set -u
braid=$1
shift
only=" $* "
scratch=$(mktemp -d)
near_address=10.9.0.1
far_address=10.9.0.2

far() { ip netns exec far "$@"; }

modprobe sch_teql max_equalizers=2 2>/dev/null
# Brings devices of its own that nobody uses.
modprobe ip_gre
ip netns add far
far ip link set lo up
# TEQL's devices are there in the first namespace only.
ip link set teql1 netns far 2>/dev/null
for number in 1 2; do
    ip link add near$number type veth peer name far$number netns far
    ip link set near$number address 02:00:00:00:00:0$number up
    far ip link set far$number address 02:00:00:00:01:0$number up
done
far iperf3 -s -D >/dev/null
# The order of devices may change, and TEQL's devices, which are never made or
# deleted, get the kernel's usual queue when they are up for the first time.
# Few processes: each costs much in a machine like this.
snapshot() {
    for side in "" far; do
        printf '%s\n' "link show" "addr show" rule "route show table all" nexthop |
            $side ip -d -o -4 -batch - 2>&1
        $side tc qdisc show
    done | sed 's/^[0-9]*: \([a-z]\)/\1/; s/@if[0-9]*//; s/ promiscuity.*//; s/ state [A-Z]*//; s/NO-CARRIER,//; s/,M-DOWN//; s/,LOWER_UP//; s/refcnt.*//; /^teql/d; /dev teql/d; /linkdown/d' | sort
    pgrep -l 'team|ppp' | sed 's/^[0-9]* //'
}
before=$(snapshot)

# config SIDE NAME ENGINE ADDRESS < the rest
config() {
    local addresses=
    [ -z "$4" ] || addresses="addresses = [\"$4/24\"]"
    cat >"$scratch/$1.toml" <<TOML
[interface]
name = "$2"
engine = "$3"
control = "$scratch/$1.sock"
state_dir = "$scratch/$1.state"
$addresses
TOML
    cat >>"$scratch/$1.toml"
}

# links SIDE [EXTRA FOR LINK 1] [FOR LINK 2]
links() {
    printf '[[link]]\nname = "a"\ninterface = "%s1"\n%s\n' "$1" "${2:-}"
    printf '[[link]]\nname = "b"\ninterface = "%s2"\n%s\n' "$1" "${3:-}"
}

up() {
    # Programs of the far end must not see the near one's /run.
    far sh -c "mount -t tmpfs tmpfs /run; exec $braid up -f -c $scratch/far.toml" >"$scratch/far.log" 2>&1 &
    far_pid=$!
    "$braid" up -f -c "$scratch/near.toml" >"$scratch/near.log" 2>&1 &
    near_pid=$!
}

down() {
    "$braid" down -c "$scratch/near.toml" >>"$scratch/near.log" 2>&1
    "$braid" down -c "$scratch/far.toml" >>"$scratch/far.log" 2>&1
    wait $near_pid || echo "near ended with $?" >>"$scratch/near.log"
    wait $far_pid || echo "far ended with $?" >>"$scratch/far.log"
}

# Waits until the far end answers, so many tries of 0.2 s.
reach() {
    for ((try = 0; try < $1; try++)); do
        ping -c 1 -W 1 -i 0.2 $far_address >/dev/null 2>&1 && return 0
        kill -0 $near_pid $far_pid 2>/dev/null || return 1
        sleep 0.2
    done
    return 1
}

sent() { cat /sys/class/net/near$1/statistics/tx_bytes; }
# How often the sender saw packets overtake each other (not: get lost).
overtaken() { nstat -asz 'TcpExtTCP*Reorder' 2>/dev/null | awk '/Reorder/ { sum += $2 } END { print sum + 0 }'; }

# Sends and tells how many MB left by each link.
traffic() {
    local a b
    a=$(sent 1) b=$(sent 2)
    timeout 30 iperf3 -c $far_address ${length:--n 8M} -P "${1:-1}" >"$scratch/iperf3" 2>&1 || return 1
    moved="$((($(sent 1) - a) / 1000000)) $((($(sent 2) - b) / 1000000))"
}

# both | one | copies | any: what the counters must show. iperf3 is done when it has
# handed all 8 MB to the kernel, of which some wait in the socket then.
spread() {
    read -r a b <<<"$moved"
    case $1 in
    both) ((a >= 1 && b >= 1)) ;;
    one) ((a + b >= 3 && (a == 0 || b == 0))) ;;
    copies) ((a >= 3 && b >= 3)) ;;
    any) ((a + b >= 3)) ;;
    esac
}

# carries EXPECTED CONNECTIONS: after some tries, since LACP and PPP take their links in
# one by one.
carries() {
    for ((attempt = 0; attempt < 6; attempt++)); do
        traffic "$2" && spread "$1" && return 0
        sleep 1
    done
    return 1
}

# unequal none|some check NAME …: with links of different delay, do packets overtake
# each other?
unequal() {
    local expected=$1 name=$3 count
    shift
    tc qdisc add dev near1 root netem delay 5ms
    before=$(snapshot)
    count=$(overtaken)
    "$@"
    count=$(($(overtaken) - count))
    tc qdisc del dev near1 root
    before=$(snapshot)
    if [ $expected = none ]; then ((count == 0)); else ((count > 0)); fi &&
        echo "ok $name-order" || echo "FAILED $name-order: packets overtook each other $count times"
}

# check NAME EXPECTED CONNECTIONS [loss]
check() {
    why=
    up
    if ! reach 60; then
        why="the far end can't be reached"
    elif ! { sleep "${settle:-0}" && carries "$2" "$3"; }; then
        why="traffic by each link: ${moved:-none} MB; $(tail -n 1 "$scratch/iperf3")"
    elif [ "${4:-}" ]; then
        far ip link set far1 down
        sleep "${notice:-0.5}"
        if ! { reach 40 && traffic "$3" && spread any; }; then
            why="after a link was lost: ${moved:-none} MB"
        fi
        far ip link set far1 up
        sleep "${notice:-0.5}"
        [ "$why" ] || { reach 40 && sleep "${return:-1}" && carries "$2" "$3"; } ||
            why="after the link was back: ${moved:-none} MB"
    fi
    [ "$why" ] || "$braid" status -c "$scratch/near.toml" --json >"$scratch/status" 2>&1 ||
        why="no status: $(cat "$scratch/status")"
    down
    finish "$1"
}

# scripted NAME EXPECTED CONNECTIONS: the same by the scripts that `braid export` writes.
scripted() {
    local side script
    why=
    # The far end's programs have a /run of their own, which its `down` sees too.
    ip netns exec far sh -c 'mount -t tmpfs tmpfs /run; touch /run/far; exec sleep 1000' &
    far_pid=$! near_pid=$$
    at_far="nsenter -t $far_pid -m -n"
    until $at_far test -e /run/far; do sleep 0.1; done
    for side in near far; do
        script=$scratch/$side.walk
        at=
        [ $side = near ] || at=$at_far
        rm -rf "$script"
        $at "$braid" export --format iproute2 -c "$scratch/$side.toml" --output "$script" >"$scratch/$side.log" 2>&1 &&
            $at sh "$script"/*.sh up >>"$scratch/$side.log" 2>&1 </dev/null || why="$side: its script failed"
    done
    if [ -z "$why" ] && ! reach 60; then
        why="the far end can't be reached"
    elif [ -z "$why" ] && ! { sleep "${settle:-0}" && carries "$2" "$3"; }; then
        why="traffic by each link: ${moved:-none} MB; $(tail -n 1 "$scratch/iperf3")"
    fi
    sh "$scratch/near.walk"/*.sh down >>"$scratch/near.log" 2>&1
    $at_far sh "$scratch/far.walk"/*.sh down >>"$scratch/far.log" 2>&1
    finish "$1"
    kill $far_pid
    wait $far_pid 2>/dev/null
}

# finish NAME: what was seen, and that nothing is left.
finish() {
    for ((try = 0; try < 20; try++)); do
        after=$(snapshot)
        [ "$after" = "$before" ] && break
        sleep 0.2
    done
    if [ -z "$why" ] && [ "$after" != "$before" ]; then
        why="left behind: $(diff <(echo "$before") <(echo "$after") | tr '\n' '|')"
    fi
    if [ "$why" ]; then
        echo "FAILED $1: $why | near: $(tail -n 3 "$scratch/near.log" | tr '\n' '|') far: $(tail -n 3 "$scratch/far.log" | tr '\n' '|')"
    else
        echo "ok $1"
    fi
    unset settle notice return length
}

wanted() { [ "$only" = "  " ] || [[ $only = *" $1 "* ]]; }
either() { wanted "$1" || wanted "$1-script"; }

# both NAME EXPECTED CONNECTIONS [loss]: by braid, and by its scripts.
both() {
    local name=$1 settles=${settle:-0} takes=${length:-}
    shift
    if wanted "$name"; then check "$name" "$@"; fi
    settle=$settles length=$takes
    if wanted "$name-script"; then scripted "$name-script" "$1" "$2"; fi
    unset settle length
}

bond() { # NAME MODE EXPECTED CONNECTIONS [loss]
    either "$1" || return
    for side in near far; do
        address=${side}_address
        { printf '[engine]\nmode = "%s"\nmonitor_interval = "50ms"\n%s\n' "$2" "${extra:-}"; links $side; } |
            config $side bond0 bonding "${!address}"
    done
    ${checked:-both} "$1" "$3" "$4" "${5:-}"
    unset extra
}

bond bonding-balance-rr balance-rr both 1 loss
checked="unequal some check" bond bonding-balance-rr-unequal balance-rr any 1
bond bonding-active-backup active-backup one 1 loss
extra='hash = "layer3+4"'
bond bonding-balance-xor balance-xor both 16
bond bonding-broadcast broadcast copies 1
extra='lacp_rate = "fast"'
settle=3
bond bonding-802.3ad 802.3ad both 16
bond bonding-balance-tlb balance-tlb any 4
bond bonding-balance-alb balance-alb any 4

team() { # NAME MODE EXPECTED CONNECTIONS [loss]
    either "$1" || return
    for side in near far; do
        address=${side}_address
        { printf '[engine]\nmode = "%s"\n' "$2"; links $side; } |
            config $side team0 team "${!address}"
    done
    both "$1" "$3" "$4" "${5:-}"
}

team team-roundrobin roundrobin both 1 loss
team team-activebackup activebackup one 1
# teamd deals its buckets of flows out by the load of the last second.
length='-t 5 -b 4M'
team team-loadbalance loadbalance both 16
length='-t 5 -b 4M'
settle=3
team team-lacp lacp both 16

if either teql; then
    links near | config near teql0 teql $near_address
    links far | config far teql1 teql $far_address
    both teql both 1
fi

pppoe() { # NAME LINK1 LINK2 of near, LINK1 LINK2 of far
    either "$1" || return
    { printf '[engine]\nrole = "client"\n'; links near "$2" "$3"; } |
        config near ppp9 pppoe-multilink ""
    { printf '[engine]\nrole = "server"\nserver = "%s"\nclient = "%s"\n' $far_address $near_address
      links far "$4" "$5"; } | config far ppp9 pppoe-multilink ""
    settle=3
    if wanted "$1"; then unequal none check "$1" both 1; fi
    settle=3
    if wanted "$1-script"; then scripted "$1-script" both 1; fi
    unset settle
}

pppoe pppoe-multilink \
    'peer_mac = "02:00:00:00:01:01"' 'peer_mac = "02:00:00:00:01:02"' \
    'peer_mac = "02:00:00:00:00:01"' 'peer_mac = "02:00:00:00:00:02"'
pppoe pppoe-multilink-discovery '' '' '' ''

# Links that are routed: their own addresses, and Ethernet in a tunnel for the bond.
# tunnelled NAME SETTINGS OF near, OF far
tunnelled() {
    either "$1" || return
    for number in 1 2; do
        ip addr replace 10.1.$number.1/24 dev near$number
        far ip addr replace 10.1.$number.2/24 dev far$number
    done
    before=$(snapshot)
    { printf '[engine]\nmode = "balance-rr"\n%s\n' "$2"
      links near 'remote = "10.1.1.2"' 'remote = "10.1.2.2"'; } |
        config near bond0 bonding $near_address
    { printf '[engine]\nmode = "balance-rr"\nend = "second"\n%s\n' "$3"
      links far 'remote = "10.1.1.1"' 'remote = "10.1.2.1"'; } |
        config far bond0 bonding $far_address
    both "$1" both 1
}

tunnelled bonding-over-gretap 'over = "gretap"' 'over = "gretap"'
tunnelled bonding-over-vxlan 'over = "vxlan"' 'over = "vxlan"'

# wireguard FILE OF THE PRIVATE KEY, THE OTHER'S PUBLIC KEY
wireguard() {
    printf 'over = "wireguard"\nport = 51821\nprivate_key_file = "%s"\npeer_public_key = "%s"\n' "$@"
}
if ip link add probe0 type wireguard 2>/dev/null; then
    ip link del probe0
    echo EIyNr7QtbkGUis8wOdLWwQw3EBQNiHnBGwj7EU9B5Uk= >"$scratch/near.key"
    echo AAx8J4FHJ17EgPsphipsHLL6BzFkqJQ23CzbOYoJz0A= >"$scratch/far.key"
    tunnelled bonding-over-wireguard \
        "$(wireguard "$scratch/near.key" Y4FiIvkVlJZvw6W6CnwJLAkWkANT70fUmBR8SRtIaV0=)" \
        "$(wireguard "$scratch/far.key" yRePzHZ7KI3Xg5Nu1gifJ1ObgtymXtaWApMhDgt4IA8=)"
else
    echo "skipped: bonding-over-wireguard: this kernel has no WireGuard"
fi
echo finished
