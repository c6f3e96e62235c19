#!/bin/bash
# Boots a systemd of its own, in namespaces, over this host's files, with the
# units of packaging/systemd, and runs probe.sh in it.
#   boot.sh PROGRAM UNITS SCRATCH     leaves SCRATCH/out; status 77: can't be done here
set -euo pipefail
program=$1 units=$2 scratch=$3 here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "$1"
    exit 77
}

if [ "${BRAID_STAGE:-}" != inside ]; then
    [ "$(id -u)" = 0 ] || skip "needs root"
    for command in systemctl systemd-analyze unshare nsenter curl nft ip; do
        command -v $command >/dev/null || skip "there is no $command"
    done
    [ -c /dev/net/tun ] || skip "there is no /dev/net/tun"
    # A control group of our own, so that what systemd makes is ours to remove.
    groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$groups" ] || skip "there is no cgroup2"
    group=$groups/braid-test-$$
    mkdir "$group" 2>/dev/null || skip "control groups can't be made"
    trap 'find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; forget_disk' EXIT
    forget_disk() { [ ! -s "$scratch/disk" ] || losetup -d "$(cat "$scratch/disk")"; }
    # A pool, for its timers; without, that part is left out. Its name is seen by all of the host.
    truncate -s 300M "$scratch/file"
    losetup --find --show "$scratch/file" >"$scratch/disk" 2>/dev/null &&
        mkfs.btrfs -q -L timed "$(cat "$scratch/disk")" 2>/dev/null || true
    export BRAID_STAGE=inside
    # shellcheck disable=SC2016
    (echo $BASHPID >"$group/cgroup.procs" &&
        exec timeout -k 5 400 unshare --mount --net --uts --ipc --cgroup --pid --fork --kill-child \
            "$0" "$program" "$units" "$scratch") </dev/null && status=0 || status=$?
    # The last processes of a killed namespace are gone a moment later.
    for _ in {1..50}; do
        [ -z "$(find "$group" -name cgroup.procs -exec cat {} +)" ] && break
        sleep 0.1
    done
    exit $status
fi

mount --make-rprivate /
mkdir -p "$scratch/mount"
mount -t tmpfs tmpfs "$scratch/mount"
mkdir "$scratch/mount/"{upper,work,root}
root=$scratch/mount/root
mount -t overlay overlay "$root" \
    -o "lowerdir=/,upperdir=$scratch/mount/upper,workdir=$scratch/mount/work" 2>/dev/null ||
    skip "there is no overlay filesystem"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run tmp dev; do
    mount -t tmpfs tmpfs "$root/$folder"
done
# A service with devices of its own has the terminals and queues of this one.
mkdir -p "$root/dev/net" "$root/dev/shm" "$root/dev/pts" "$root/dev/mqueue" "$root/test"
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
ln -s pts/ptmx "$root/dev/ptmx"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mknod "$root/dev/net/tun" c 10 200
disk=$(cat "$scratch/disk")
# shellcheck disable=SC2046
[ -z "$disk" ] || mknod "$root$disk" b $(stat -c '0x%t 0x%T' "$disk")
mount --bind "$scratch" "$root/test"

# Nothing else than our units shall start.
rm -rf "$root"/lib/systemd/system/*.target.wants/* "$root"/etc/systemd/system/*
cp "$units"/* "$root/etc/systemd/system/"
cp "$here/probe.service" "$root/etc/systemd/system/"
cp "$program" "$root/usr/bin/braid"
cp "$here/probe.sh" "$root/probe.sh"
rm -rf "$root/etc/braid"
mkdir -p "$root/etc/polkit-1/rules.d"
cp "$units/../polkit"/* "$root/etc/polkit-1/rules.d/"
mkdir "$root/etc/braid"
cp "$here/braid.toml" "$root/etc/braid/"
"$program" keygen --out "$root/etc/braid/key" >/dev/null

ip link set lo up
ip link add wan0 type veth peer name isp0
ip link set isp0 up
ip addr add 192.0.2.2/24 dev wan0
ip link set wan0 up

# As a systemd that isn't in a container has it: what it mounts for a service (its credentials) is
# mounted in a namespace of its own first.
mount --make-rshared "$root"
systemd=/lib/systemd/systemd
[ -x "$root$systemd" ] || skip "there is no $systemd"
exec chroot "$root" env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    "$systemd" --system --unit=probe.service --log-target=null
