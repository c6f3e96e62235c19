#!/bin/bash
# What the unit does to a host, as `name: value` lines.
unit=braid-concentrator.service

main() {
    # There before the unit starts, so that it is guarded.
    : >/etc/braid/pools.toml
    mkdir -p /run/dbus
    : >/run/dbus/system_bus_socket
    systemctl start $unit
    tell started "$(state)"
    tell status "$(braid status --json | tr -d '\n ')"
    tell confined "$(grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$(pid)/status" | tr -d '\n\t')"
    tell addresses "$(ip -br addr show dev braid0 | tr -s ' ')"
    tell routes "$(ip route show dev braid0 | tr -s ' ' | tr '\n' ';')"
    tell table "$(nft list tables | tr '\n' ';')"
    # Of UDP, where strangers have a socket of their own at the same port, and of TCP.
    tell low_ports "$(ss -Hlun 'sport = 443' | awk '{ print $4 }' | sort -u | wc -l) $(ss -Hltn 'sport = 443' | wc -l)"
    tell devices "$(nsenter --mount --root --target "$(pid)" sh -c 'ls /dev/net/tun; ls /dev/test-disk' 2>/dev/null)"
    tell hidden "$(nsenter --mount --root --target "$(pid)" sh -c 'ls /run/dbus | wc -l; wc -c </etc/shadow' | tr '\n' ' ')"
    tell tunables "$(nsenter --mount --root --target "$(pid)" sh -c 'for it in kernel/hostname net/ipv4/ip_forward; do test -w /proc/sys/$it && echo $it; done')"
    tell settings "$(cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/wan0/proxy_arp | tr '\n' ' ')"
    # Neighbours are answered by a raw socket.
    for _ in {1..50}; do [ "$(awk 'NR > 1' /proc/net/packet)" ] && break || sleep 0.1; done
    tell packet_sockets "$(awk 'NR > 1' /proc/net/packet | wc -l)"
    systemctl reload $unit
    tell reloaded "$? $(state)"
    tell let_in "$(let_in cabin) $(braid concentrator list | grep -c cabin)"
    tell guarded "$(nsenter --mount --root --target "$(pid)" sh -c 'echo x >>/etc/braid/pools.toml; mv -f /etc/braid/key /etc/braid/pools.toml' 2>&1 | grep -cE 'Read-only|busy') $(wc -c </etc/braid/pools.toml)"
    kill -9 "$(pid)"
    until [ "$(systemctl show -p NRestarts --value $unit)" != 0 ] && [ "$(state)" = active/running ]; do
        sleep 0.2
    done
    tell restarted "$(systemctl show -p NRestarts --value $unit)"
    systemctl stop $unit
    tell stopped "$? $(state)"
    tell left "$(ip -br link show dev braid0 2>/dev/null)$(nft list tables)$(cat /proc/sys/net/ipv4/ip_forward)"
    [ ! -s /test/disk ] || pool
    without_root
    page
    credential
    # A config with an error ends it for good.
    echo nonsense >>/etc/braid/braid.toml
    systemctl start $unit
    tell broken "$(state) $(systemctl show -p ExecMainStatus --value $unit)"
    tell units "$(systemd-analyze verify /etc/systemd/system/braid* 2>&1 | grep braid | tr '\n' ';')"
}

# Who is in the group has tunnels' units by polkit, as the packages' rule says, and no others.
without_root() {
    [ -x /usr/lib/polkit-1/polkitd ] && command -v dbus-daemon >/dev/null || return 0
    rm -r /run/dbus
    getent group braid >/dev/null || groupadd --system braid
    useradd --no-create-home --groups braid member
    useradd --no-create-home stranger
    systemctl start dbus.service
    local verb told=()
    for verb in start reload restart stop; do
        told+=("$(as member "$verb" $unit) $(as stranger "$verb" $unit)")
    done
    tell without_root "${told[*]}, $(as member start braid-pool-watch.service) $(as member set-property $unit CPUWeight=1) $(state)"
    systemctl stop dbus.service dbus.socket polkit.service
}

# USER VERB UNIT…: yes or no.
as() {
    setpriv --reuid "$1" --regid "$1" --init-groups systemctl --no-ask-password "${@:2}" 2>/dev/null &&
        echo yes || echo no
}

# The pools' page has no network but the socket that systemd hands over, and a look at the pools writes.
page() {
    local process
    systemctl start braid-ui.service
    tell page_served "$(curl -s -o /dev/null -w '%{http_code}' --max-time 20 http://127.0.0.1:5190/login)"
    process=$(systemctl show -p MainPID --value braid-ui.service)
    tell page_network "$(nsenter --net --target "$process" ip -br link | wc -l) $(systemctl show -p NRestarts --value braid-ui.service)"
    # The socket stays over a restart.
    systemctl restart braid-ui.service
    tell page_again "$(curl -s -o /dev/null -w '%{http_code}' --max-time 20 http://127.0.0.1:5190/login)"
    systemctl stop braid-ui.service braid-ui.socket
    mkdir -p /run/systemd/system/braid-pool-watch.service.d
    printf '[Service]\nEnvironment="BRAID_WATCH_OPTIONS=--no-smart --prometheus /var/lib/metrics/braid.prom"\n' \
        >/run/systemd/system/braid-pool-watch.service.d/metrics.conf
    systemctl daemon-reload
    systemctl start braid-pool-watch.service
    tell watched "$? $(stat -c %a /var/lib/metrics/braid.prom) $(stat -c %a /var/lib/braid)"
}

# The key isn't in a file of the config's: the unit loads it, wherever it comes from.
credential() {
    mkdir -p /run/systemd/system/$unit.d /root/elsewhere
    mv /etc/braid/key /root/elsewhere/key
    printf '[Service]\nLoadCredential=braid.key:/root/elsewhere/key\n' >/run/systemd/system/$unit.d/key.conf
    sed -i 's,^private_key_file.*,private_key_file = "%d/braid.key",' /etc/braid/braid.toml
    systemctl daemon-reload
    tell unloaded "$(braid config check 2>&1 >/dev/null | tr '\n' ' ')"
    systemctl start $unit
    tell loaded "$(state)"
    # Where the environment doesn't say where it is.
    braid config check >/dev/null
    tell found "$? $(stat -c %a /run/credentials/$unit/braid.key)"
    systemctl reload $unit
    tell loaded_again "$? $(state)"
    local before
    before=$(pid)
    braid restart >/dev/null
    tell kept_over_restart "$? $(state) $(($(pid) - before))"
    systemctl stop $unit
    mv /root/elsewhere/key /etc/braid/key
    sed -i 's,^private_key_file.*,private_key_file = "key",' /etc/braid/braid.toml
    rm -r /run/systemd/system/$unit.d
    systemctl daemon-reload
}

# Adds a home on the page, as a browser does; how many join lines come back.
let_in() {
    local form
    ask() { curl -s --unix-socket /run/braid/braid0.ui.sock -H "Origin: http://localhost" "$@"; }
    form=$(ask "http://localhost/new-home?name=$1&valid=1h&endpoints=192.0.2.2:51900" |
        sed -n 's/.*name="form" value="\([^"]*\)".*/\1/p')
    ask -d "form=$form&name=$1&valid=1h&endpoints=192.0.2.2:51900" http://localhost/new-home |
        grep -c braid-join:
}

# What the config of a pool wants regularly is begun by systemd, and no more when it wants it no more.
pool() {
    wants 'scrub = {}' 'snapshot = { of = ["."] }' 'retain = { policy = "2x1d" }'
    tell applied "$? $(timers)"
    local uuid
    uuid=$(blkid -p -s UUID -o value "$(cat /test/disk)")
    systemctl start "braid-pool-snapshot@$uuid.service" "braid-pool-retain@$uuid.service"
    tell services "$? $(find /srv/timed/.snapshots -mindepth 1 -maxdepth 1 ! -name ".braid-*" | wc -l)"
    wants 'scrub = { on = "weekly" }'
    tell changed "$? $(timers) $(systemctl show -p TimersCalendar --value "braid-pool-scrub@$uuid.timer" | grep -om1 'Mon' | head -n 1)"
    tell kept "$(wants 'scrub = { on = "weekly" }')"
    replicates
    wants
    tell gone "$? $(timers)"
    wants 'scrub = {}'
    : >/etc/braid/pools.toml
    apply
    tell forgotten "$? $(timers) $(find /etc/systemd/system -name 'braid-pool-*@?*.timer' | wc -l)"
    umount /srv/timed
}

# The timer itself begins it, and a snapshot arrives.
replicates() {
    local timer=braid-pool-replicate@$uuid
    wants 'replicate = { to = "/srv/timed/replicas", on = "*:*:*", jitter = "0s" }'
    # Else it may be a minute late.
    mkdir -p "/run/systemd/system/$timer.timer.d"
    printf '[Timer]\nAccuracySec=1s\n' >"/run/systemd/system/$timer.timer.d/soon.conf"
    systemctl daemon-reload
    systemctl restart "$timer.timer"
    for _ in {1..1000}; do
        compgen -G '/srv/timed/replicas/*Z' >/dev/null && break || sleep 0.1
    done
    systemctl stop "$timer.timer"
    while [ "$(systemctl show -p ActiveState --value "$timer.service")" = activating ]; do sleep 0.1; done
    tell replicated "$(systemctl show -p Result --value "$timer.service") $(cd /srv/timed/replicas && echo *Z)"
    tell taken "$(cd /srv/timed/.snapshots && echo *Z)"
    rm -r "/run/systemd/system/$timer.timer.d"
}

wants() {
    {
        printf '[[pool]]\nname = "timed"\nlayout = "btrfs-single"\ndisks = ["%s"]\n' "$(cat /test/disk)"
        printf '%s\n' "$@"
    } >/etc/braid/pools.toml
    apply
}

apply() {
    braid pool apply --config /etc/braid/pools.toml --yes
}

timers() {
    systemctl list-units --type=timer --state=active --plain --no-legend 'braid-pool-*@*' | wc -l
}

tell() {
    echo "$1: $2"
}

state() {
    systemctl show -p ActiveState,SubState --value $unit | tr '\n' '/' | sed 's,/$,,'
}

pid() {
    systemctl show -p MainPID --value $unit
}

main
