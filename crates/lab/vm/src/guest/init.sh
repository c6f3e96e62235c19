#!/bin/sh
# Process 1 of the machine, on the host's files read-only, in the folder that is
# shared with the host. Makes a root that can be written to (an overlay whose upper
# layer is memory), runs the command there, leaves its exit status in the shared
# folder, and switches the machine off. A program takes some 20 ms to start: few are.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
share=${0%/*}
root=/mnt/root
read -r modules <"$share/modules" || [ -n "$modules" ]
mount -t proc proc /proc
read -r release </proc/sys/kernel/osrelease
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work $root
overlay=
while read -r first second; do
    [ "${second:-$first}" != overlay ] || overlay=built-in
done </proc/filesystems
[ "$overlay" ] || insmod "$modules/$release/kernel/fs/overlayfs/overlay.ko"
mount -a -T "$share/fstab" || echo "there is no root that can be written to" >&2
# Nobody is to be called when a device comes or goes.
[ ! -e $root/sys/kernel/uevent_helper ] || echo >$root/sys/kernel/uevent_helper

cp -R -P "$share/dev/." $root/dev/
mkdir -p $root/dev/net $root/run/netns $root/run/lock $root/run/mdadm $root/run/host
[ -e $root/dev/ppp ] || mknod $root/dev/ppp c 108 0
[ -e $root/dev/net/tun ] || mknod $root/dev/net/tun c 10 200
if ! [ -d "$root/lib/modules/$release" ]; then
    # Everything is built in: depmod and modprobe have nothing to do.
    umount $root/lib/modules 2>/dev/null
    mkdir -p "$root/lib/modules/$release"
    : >"$root/lib/modules/$release/modules.order"
    depmod -b $root 2>/dev/null
fi

# From here on the overlay is the root of everybody, also of the modprobe that
# the kernel itself starts.
cd $root
pivot_root . run/host
cd /
umount -l /run/host

ip link set lo up
read -r name </run/vm/hostname || [ -n "$name" ] && echo "$name" >/proc/sys/kernel/hostname
stty raw -echo </dev/tty1
setsid sh /run/vm/command </dev/null >/dev/tty1 2>&1
status=$?
# What the command wrote to the console is still on its way.
sync
echo $status >/run/vm/status
sync
echo o >/proc/sysrq-trigger
sleep 60
