//! Encrypted pools that open without anybody: by a TPM2, by a Tang server, and at a boot of
//! systemd. In a second kernel, since this one may have no device mapper.
//!
//! The TPM is swtpm, behind a device in user space (`tpm.py`), since that kernel has no driver for
//! one: what talks to it (libtss2, systemd-cryptenroll, cryptsetup's plugin, systemd-cryptsetup)
//! finds it as it finds a real one, by `/sys/class/tpmrm` and as a device.

#[path = "../machine/mod.rs"]
#[allow(dead_code, reason = "no machine's power is cut here")]
mod machine;

use machine::Ground;
use std::path::Path;

/// A passphrase is stretched as little as cryptsetup does it: as on a real host needs a gigabyte.
const PRELUDE: &str = r#"
modprobe dm-crypt
program cryptsetup 'case " $* " in *" luksFormat "*|*" luksAddKey "*) set -- --pbkdf-memory 32 --pbkdf-parallel 1 --pbkdf-force-iterations 4 "$@" ;; esac
exec /usr/sbin/cryptsetup "$@"'
root=$BRAID_POOL_CONFIG_ROOT
keys=$BRAID_POOL_STATE_DIR/../keys
tab=$root/etc/crypttab
mkdir -p $keys
printf 'correct horse' > $keys/old
findings() { braid pool doctor --no-smart --json | grep -o '"code": "[a-z-]*"' | cut -d'"' -f4 | grep -v scrub-overdue | sort | xargs; }
written() { head -c 8M /dev/urandom > /srv/data/file; sync; (cd /srv/data && sha256sum file > $keys/sum); }
same() { echo 3 > /proc/sys/vm/drop_caches; (cd /srv/data && sha256sum --check --quiet $keys/sum); }
tokens() { braid pool key list data --json | grep -c "\"$1\"" || true; }

# A TPM2 that keeps what it knows in $1.
tpm() {
    mkdir -p $1 /run/sysfs /sys/class
    mount -t sysfs sysfs /run/sysfs
    mount -t tmpfs tmpfs /sys/class
    for class in /run/sysfs/class/*; do
        mkdir /sys/class/${class##*/}
        mount --bind $class /sys/class/${class##*/}
    done
    mkdir -p /sys/class/tpmrm/tpmrm0
    swtpm socket --daemon --tpm2 --tpmstate dir=$1 --server type=tcp,port=2321 \
        --ctrl type=tcp,port=2322 --flags not-need-init,startup-clear
    modprobe cuse
    python3 $TPM_DEVICE 2321 &
    until [ -e /dev/tpmrm0 ]; do sleep 0.1; done
    measured secure boot
}
# What the firmware tells it: by whose keys this system was started.
measured() { tpm2_pcrextend -T device:/dev/tpmrm0 7:sha256=$(echo "$@" | sha256sum | cut -d' ' -f1); }

# A Tang server with its keys in $1, at port 80 of this machine.
tang() {
    systemd-socket-activate --listen=127.0.0.1:80 --accept --inetd /usr/libexec/tangd $1 2> /dev/null & server=$!
    until curl -sf http://127.0.0.1/adv > /dev/null; do sleep 0.1; done
}
thumbprint() { tang-show-keys 80; }

# Boots a systemd over this machine's files, as after `braid pool close`; then does $1 in it.
boots() {
    cp $tab $root/etc/fstab /etc
    cp $root/etc/mdadm/mdadm.conf /etc/mdadm 2> /dev/null || true
    # Nothing but what has to do with disks; clevis is where its package has it, and remote
    # filesystems are mounted as Debian does it.
    for folder in /etc/systemd/system /lib/systemd/system; do
        rm -rf $folder/multi-user.target.wants $folder/graphical.target.wants $folder/timers.target.wants
    done
    rm -rf /etc/systemd/system/sockets.target.wants
    for unit in systemd-binfmt systemd-timesyncd systemd-networkd systemd-resolved systemd-update-utmp; do
        ln -sf /dev/null /etc/systemd/system/$unit.service
    done
    ln -sf /dev/null /etc/systemd/system/proc-sys-fs-binfmt_misc.automount
    # What a boot before this one has left.
    rm -rf /run/systemd
    # As long as clevis takes here: devices are waited for as long as units.
    mkdir -p /etc/systemd/system.conf.d
    printf '%s\n' '[Manager]' DefaultTimeoutStartSec=600 > /etc/systemd/system.conf.d/slow.conf
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
    printf '%s\n' '[Unit]' 'After=multi-user.target' '[Service]' 'Type=simple' 'ExecStart=/bin/bash /run/vm-booted' \
        > /etc/systemd/system/booted.service
    mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -sf ../booted.service /lib/systemd/system/remote-fs.target /etc/systemd/system/multi-user.target.wants
    { declare -p PATH keys tab root BRAID_POOL_STATE_DIR BRAID_POOL_CONFIG_ROOT | sed 's/^declare -[-a-z]* /export /'
      declare -f same findings mounted crypts
      printf '%s\n' "exec >> $keys/told 2>&1" "$1" "echo the end"; } > /run/vm-booted
    : > $keys/told
    unshare --mount --pid --fork --kill-child --mount-proc env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=multi-user.target --show-status=no --log-target=journal \
        > /tmp/systemd 2>&1 & systemd=$!
    for _ in $(seq 1600); do
        if grep -q '^the end' $keys/told; then break; fi
        sleep 0.5
    done
    kill -9 $systemd
    cat $keys/told
    grep -q '^the end' $keys/told || cat /tmp/systemd
}
# Waits for the pool.
mounted() { for _ in $(seq 1000); do mountpoint -q /srv/data && return; sleep 0.5; done; journalctl -b --no-pager | tail -60; return 1; }
crypts() { systemctl list-units --no-legend --plain "systemd-cryptsetup@luks*data*" | awk '{ print $3 "/" $4 }' | xargs; }
# Whether a boot opens the pool that was just made, and mounts it.
boot_opens_it() {
    written
    braid pool close data
    boots 'mounted; same && echo "same after a boot"; echo "units: $(crypts)"'
}
"#;

/// What `boot_opens_it` tells, of two disks.
const OPENED_BY_A_BOOT: [&str; 2] = ["same after a boot", "units: active/exited active/exited"];

fn script(text: &str) -> String {
    let device = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pools_opened_in_vm/tpm.py");
    format!("TPM_DEVICE={device}\n{PRELUDE}\n{text}")
}

fn has(told: &str, lines: &[&str]) {
    for line in lines {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

/// Disks, if all of these programs are here.
fn ground(sizes_mib: &[u64], programs: &[&str]) -> Option<Ground> {
    let is_there = |name: &&&str| {
        ["/usr/sbin", "/usr/bin", "/usr/libexec", "/lib/systemd"]
            .iter()
            .any(|folder| Path::new(folder).join(name).exists())
    };
    match programs.iter().chain(&["cryptsetup"]).find(|name| !is_there(name)) {
        Some(missing) => {
            println!("skipped: there is no {missing}");
            None
        }
        None => Ground::new(sizes_mib),
    }
}

const TPM: [&str; 4] = ["swtpm", "python3", "tpm2_pcrextend", "systemd-cryptenroll"];
const TANG: [&str; 5] =
    ["tangd", "clevis-luks-bind", "clevis-luks-askpass", "systemd-socket-activate", "curl"];
const BOOT: [&str; 2] = ["systemd", "systemd-cryptsetup"];

#[test]
fn a_pool_is_opened_by_its_own_tpm_and_by_no_other() {
    let Some(ground) = ground(&[128; 3], &TPM) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
if braid pool create data --layout md-raid1 --encrypt=tpm2 --passphrase-file $keys/old $1 $2 --yes; then exit 1; fi
echo "untouched: $(wipefs $1 $2 | wc -l) $(cat $tab 2> /dev/null | wc -l)"
tpm $keys/tpm
braid pool create data --layout md-raid1 --encrypt=tpm2 --passphrase-file $keys/old $1 $2 --yes
echo "made: $(tokens systemd-tpm2) tokens, $(grep -c ' none luks,nofail,tpm2-device=auto' $tab) lines"
echo "found: $(findings)."
written
braid pool add data $3 --passphrase-file $keys/old --yes
echo "three: $(tokens systemd-tpm2) tokens"
braid pool close data
braid pool open data < /dev/null
same && echo "same by the TPM"
braid pool close data
"#,
        ),
    );
    has(
        &told,
        &[
            "this computer has no TPM2",
            "untouched: 0 0",
            "made: 2 tokens, 2 lines",
            "found: .",
            "three: 3 tokens",
            "same by the TPM",
        ],
    );
    let told = ground.works(
        "alpha",
        &script(
            r#"
tpm $keys/tpm
braid pool open data < /dev/null
same && echo "same after a boot"
braid pool close data
measured another loader
if braid pool open data < /dev/null; then exit 1; fi
echo "other keys of Secure Boot: $(ls /dev/mapper | xargs)."
braid pool open data --passphrase-file $keys/old
same && echo "same by the passphrase"
"#,
        ),
    );
    has(
        &told,
        &[
            "same after a boot",
            "can't be opened automatically: ",
            "can't ask for the passphrase without a terminal",
            "other keys of Secure Boot: control.",
            "same by the passphrase",
        ],
    );
    let told = ground.works(
        "alpha",
        &script(
            r#"
tpm $keys/other-tpm
if braid pool open data < /dev/null; then exit 1; fi
echo "another computer: $(ls /dev/mapper | xargs)."
braid pool open data --passphrase-file $keys/old
same && echo "same on another computer"
"#,
        ),
    );
    has(&told, &["another computer: control.", "same on another computer"]);
}

#[test]
fn a_boot_opens_a_pool_by_its_key_file_before_it_mounts_it() {
    let Some(ground) = ground(&[320; 2], &BOOT) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
braid pool create data --layout btrfs-raid1 --encrypt $1 $2 --yes
boot_opens_it
"#,
        ),
    );
    has(&told, &OPENED_BY_A_BOOT);
}

#[test]
fn a_boot_opens_an_array_by_its_tpm_before_it_mounts_it() {
    let Some(ground) = ground(&[128; 2], &[&TPM[..], &BOOT].concat()) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
tpm $keys/tpm
braid pool create data --layout md-raid1 --encrypt=tpm2 --passphrase-file $keys/old $1 $2 --yes
boot_opens_it
"#,
        ),
    );
    has(&told, &OPENED_BY_A_BOOT);
}

/// Also at a boot; and a host whose server doesn't answer boots nevertheless, without its pool.
/// Each of clevis' commands is some hundred processes, which are slow here: one disk has to do.
#[test]
fn a_pool_is_opened_by_a_tang_server_that_answers() {
    let Some(ground) = ground(&[320], &[&TANG[..], &BOOT].concat()) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
mkdir -p $keys/tang; /usr/libexec/tangd-keygen $keys/tang
create="braid pool create data --layout btrfs-single --encrypt=tang --passphrase-file $keys/old $1 --yes --tang http://127.0.0.1"
others=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
untouched() { echo "$1: $(wipefs $disk | wc -l) $(cat $tab 2> /dev/null | wc -l)"; }
disk=$1
if $create --tang-thumbprint $others; then exit 1; fi
untouched "no answer"
tang $keys/tang
if $create --tang-thumbprint $others; then exit 1; fi
untouched "another's thumbprint"
$create --tang-thumbprint $(thumbprint)
echo "made: $(tokens clevis) tokens, $(grep -c ' none luks,nofail,_netdev' $tab) lines, $(grep -c 'nofail,_netdev,x-systemd.requires=remote-cryptsetup' $root/etc/fstab) mounts"
echo "found: $(findings)."
written
braid pool close data
braid pool open data < /dev/null
same && echo "same by the server"
braid pool close data
boots 'mounted; same && echo "same after a boot"; echo "units: $(crypts)"'
"#,
        ),
    );
    has(
        &told,
        &[
            "no answer: 0 0",
            "another's thumbprint: 0 0",
            "made: 1 tokens, 1 lines, 1 mounts",
            "found: .",
            "same by the server",
            "same after a boot",
            "units: active/exited",
        ],
    );
    // Nobody answers, or nobody with that key.
    let why = "the Tang server http://127.0.0.1 doesn't give out keys under the thumbprint AAAA";
    assert_eq!(told.matches(why).count(), 2, "{told}");
    let told = ground.works(
        "alpha",
        &script(
            r#"
if braid pool open data < /dev/null; then exit 1; fi
echo "no server: $(ls /dev/mapper | xargs)."
braid pool open data --passphrase-file $keys/old
same && echo "same by the passphrase"
braid pool close data
boots 'echo "booted without the server: $(mountpoint /srv/data)"'
"#,
        ),
    );
    has(
        &told,
        &[
            "can't be opened automatically: ",
            "no server: control.",
            "same by the passphrase",
            "booted without the server: /srv/data is not a mountpoint",
        ],
    );
}
