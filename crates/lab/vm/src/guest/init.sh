#!/bin/sh
# Process 1 of the machine, on the host's files read-only. Makes a root that can
# be written to (an overlay whose upper layer is memory), runs the command there,
# leaves its exit status in the shared folder, and switches the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
mount -t proc proc /proc
read -r line </proc/cmdline
share=${line##*braid_vm=} share=${share%% *}

mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/share /mnt/modules
mount -t hostfs -o "$share" none /mnt/share
read -r modules </mnt/share/modules || [ -n "$modules" ]
read -r release </proc/sys/kernel/osrelease
[ -d "$modules" ] && mount -t hostfs -o "$modules" none /mnt/modules
grep -qw overlay /proc/filesystems ||
    insmod "/mnt/modules/$release/kernel/fs/overlayfs/overlay.ko"
root=/mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay $root ||
    echo "there is no root that can be written to" >&2

mount -t proc proc $root/proc
mount -t sysfs sys $root/sys
mount -t devtmpfs dev $root/dev
mkdir -p $root/dev/pts $root/dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts $root/dev/pts
mount -t tmpfs tmpfs $root/dev/shm
ln -sfn /proc/self/fd $root/dev/fd
ln -sf /proc/self/fd/0 $root/dev/stdin
ln -sf /proc/self/fd/1 $root/dev/stdout
ln -sf /proc/self/fd/2 $root/dev/stderr
[ -e $root/dev/ppp ] || mknod $root/dev/ppp c 108 0
mkdir -p $root/dev/net
[ -e $root/dev/net/tun ] || mknod $root/dev/net/tun c 10 200
mount -t tmpfs tmpfs $root/run
mkdir -p $root/run/netns $root/run/lock $root/run/mdadm $root/run/vm
mount --bind /mnt/share $root/run/vm
mkdir -p $root/lib/modules
if [ -d "/mnt/modules/$release" ]; then
    mount --bind /mnt/modules $root/lib/modules
else
    # Everything is built in: depmod and modprobe have nothing to do.
    mkdir -p "$root/lib/modules/$release"
    : >"$root/lib/modules/$release/modules.order"
    depmod -b $root 2>/dev/null
fi
while read -r folder; do
    mkdir -p "$root$folder"
    mount -t hostfs -o "$folder" none "$root$folder"
done </mnt/share/writable

# From here on the overlay is the root of everybody, also of the modprobe that
# the kernel itself starts.
mkdir -p $root/run/host
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
