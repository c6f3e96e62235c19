#!/bin/bash
# What the unit does to a host, as `name: value` lines.
unit=braid-concentrator.service

main() {
    systemctl start $unit
    tell started "$(state)"
    tell status "$(braid status --json | tr -d '\n ')"
    tell confined "$(grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$(pid)/status" | tr -d '\n\t')"
    tell addresses "$(ip -br addr show dev braid0 | tr -s ' ')"
    tell routes "$(ip route show dev braid0 | tr -s ' ' | tr '\n' ';')"
    tell table "$(nft list tables | tr '\n' ';')"
    tell settings "$(cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/wan0/proxy_arp | tr '\n' ' ')"
    # Neighbours are answered by a raw socket.
    tell packet_sockets "$(awk 'NR > 1' /proc/net/packet | wc -l)"
    systemctl reload $unit
    tell reloaded "$? $(state)"
    local before
    before=$(pid)
    kill -9 "$before"
    until [ "$(state)" = active/running ] && [ "$(pid)" != "$before" ]; do sleep 0.2; done
    tell restarted "$(systemctl show -p NRestarts --value $unit)"
    systemctl stop $unit
    tell stopped "$? $(state)"
    tell left "$(ip -br link show dev braid0 2>/dev/null)$(nft list tables)$(cat /proc/sys/net/ipv4/ip_forward)"
    # A config with an error ends it for good.
    echo nonsense >>/etc/braid/braid.toml
    systemctl start $unit
    tell broken "$(state) $(systemctl show -p ExecMainStatus --value $unit)"
    tell units "$(systemd-analyze verify /etc/systemd/system/braid* 2>&1 | grep braid | tr '\n' ';')"
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
