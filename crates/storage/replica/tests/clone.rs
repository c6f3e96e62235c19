//! Whole systems to another filesystem: made-up layouts of three distributions.

use braid_loop_disks::{Btrfs, fill, in_private_mounts, run};
use braid_pool::uuid::Uuid;
use braid_replica::clone::{Cloned, SystemClone, forget};
use braid_replica::replicate::{Connector, Place};
use braid_replica::source::SendOptions;
use braid_replica::{manifest, subvolume};
use braid_units::ByteSize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

fn btrfs(folder: &Path, name: &str) -> Btrfs {
    Btrfs::new(folder, name, ByteSize::from_bytes(2 << 30))
}

fn filesystem(path: &Path) -> Uuid {
    subvolume::filesystem(&fs::File::open(path).unwrap()).unwrap()
}

fn clone(from: &Path, to: &Path) -> SystemClone {
    SystemClone {
        from: Place::Local(from.to_owned()),
        connector: Connector::default(),
        retries: 0,
        to: to.to_owned(),
        root: None,
        skip: vec![],
        beside: vec![],
        boot_disk: None,
        finish: false,
        options: SendOptions::default(),
    }
}

/// fstab, boot files and tools of a system whose root is the subvolume at `root`.
fn install(root: &Path, uuid: Uuid, fstab: &str, boot_files: &[&str], tools: &[&str]) {
    let write = |name: &str, text: String| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("etc/fstab", fstab.replace("UUID=@", &format!("UUID={uuid}")));
    for name in boot_files {
        write(name, format!("root=UUID={uuid} rootflags=subvol=x\n"));
    }
    for name in tools {
        write(&format!("usr/sbin/{name}"), String::new());
    }
}

/// Every subvolume's path, and whether it is read-only.
fn subvolumes(top: &Path) -> Vec<(PathBuf, bool)> {
    let listed = subvolume::list(&fs::File::open(top).unwrap()).unwrap();
    listed.into_iter().map(|one| (one.path, one.read_only)).collect()
}

fn default_path(top: &Path) -> PathBuf {
    let file = fs::File::open(top).unwrap();
    subvolume::path_of(&file, subvolume::default_subvolume(&file).unwrap()).unwrap()
}

/// Same subvolumes, same default, same files but for what was rewritten.
fn assert_cloned(from: &Path, to: &Path, cloned: &Cloned) {
    assert_eq!(subvolumes(from), subvolumes(to));
    assert_eq!(default_path(from), default_path(to));
    assert_ne!(filesystem(from), filesystem(to));
    let parts = subvolumes(from).into_iter().map(|(path, _)| path);
    for part in parts.chain([PathBuf::new()]) {
        let read =
            |top: &Path| manifest::read(&top.join(&part), 2, &AtomicU64::new(0)).unwrap().lines;
        let differences = manifest::compare(&read(from), &read(to));
        let unexpected: Vec<_> = differences
            .into_iter()
            .filter(|one| {
                let path = part.join(one.path.as_path());
                let rewritten = cloned.rewritten.iter().any(|other| other.as_path() == path);
                // Folders that hold subvolumes got their entries anew.
                let is_folder = from.join(&path).is_dir();
                !(rewritten || is_folder && one.what == [manifest::Aspect::Modified])
            })
            .collect();
        assert_eq!(unexpected, [], "in {}", part.display());
    }
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn opensuse_boots_from_its_snapshot_and_keeps_its_others() {
    in_private_mounts("opensuse_boots_from_its_snapshot_and_keeps_its_others", || {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (btrfs(folder.path(), "old"), btrfs(folder.path(), "new"));
        let uuid = filesystem(&old.path);
        let at = old.subvolume("@");
        old.subvolume("@/.snapshots");
        fs::create_dir_all(at.join(".snapshots/1")).unwrap();
        let root = old.subvolume("@/.snapshots/1/snapshot");
        old.subvolume("@/home");
        fs::create_dir_all(at.join("var/lib")).unwrap();
        old.subvolume("@/var/lib/my machines");
        fs::create_dir_all(at.join("boot/grub2")).unwrap();
        old.subvolume("@/boot/grub2/x86_64-efi");
        fill(&root, 7, 12 << 20);
        fill(&at.join("home"), 8, 1 << 20);
        install(
            &root,
            uuid,
            "UUID=@ / btrfs defaults 0 0\nUUID=@ /home btrfs subvol=/@/home 0 0\n",
            &["boot/grub2/grub.cfg", "etc/default/grub"],
            &["dracut", "grub2-mkconfig", "update-bootloader"],
        );
        for number in 2..4 {
            let inside = at.join(format!(".snapshots/{number}"));
            fs::create_dir(&inside).unwrap();
            fs::write(inside.join("info.xml"), format!("<num>{number}</num>")).unwrap();
            let snapshot = inside.join("snapshot");
            let paths = [root.to_str().unwrap(), snapshot.to_str().unwrap()];
            run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
            fs::write(root.join(format!("after {number}")), "x").unwrap();
        }
        run("btrfs", &["subvolume", "set-default", root.to_str().unwrap()]);

        let cloned = clone(&old.path, &new.path).carry_out(|_, _| {}).unwrap();
        assert_cloned(&old.path, &new.path, &cloned);
        // Snapshots share their data: it didn't go over three times.
        assert!(cloned.stream_bytes < 25 << 20, "{}", cloned.stream_bytes);
        let new_root = new.path.join("@/.snapshots/1/snapshot");
        let new_uuid = filesystem(&new.path).to_string();
        for name in ["etc/fstab", "boot/grub2/grub.cfg", "etc/default/grub"] {
            let written = text(new_root.join(name));
            assert!(written.contains(&new_uuid) && !written.contains(&uuid.to_string()), "{name}");
            assert!(text(root.join(name)).contains(&uuid.to_string()), "the old system is changed");
        }
        // What was then is what it was.
        let then = text(new.path.join("@/.snapshots/2/snapshot/etc/fstab"));
        assert!(then.contains(&uuid.to_string()));
        let steps: Vec<&str> = cloned.plan.boot.iter().map(|step| step.argv[0].as_str()).collect();
        assert_eq!(steps, ["dracut", "grub2-mkconfig"]);
    });
}

#[test]
fn ubuntu_and_fedora_go_over_and_a_clone_is_refused_where_it_would_harm() {
    const NAME: &str = "ubuntu_and_fedora_go_over_and_a_clone_is_refused_where_it_would_harm";
    in_private_mounts(NAME, || {
        let folder = tempfile::tempdir().unwrap();
        let ubuntu = btrfs(folder.path(), "ubuntu");
        let root = ubuntu.subvolume("@");
        ubuntu.subvolume("@home");
        fill(&root, 1, 3 << 20);
        fs::write(ubuntu.path.join("beside the subvolumes"), "x").unwrap();
        let id = subvolume::open(&root).unwrap().1.id;
        install(
            &root,
            filesystem(&ubuntu.path),
            &format!("UUID=@ / btrfs defaults,subvolid={id},subvol=@ 0 1\n"),
            &["boot/grub/grub.cfg"],
            &["update-initramfs", "update-grub", "grub-install"],
        );
        let fedora = btrfs(folder.path(), "fedora");
        let fedora_root = fedora.subvolume("root");
        fedora.subvolume("home");
        install(
            &fedora_root,
            filesystem(&fedora.path),
            "UUID=@ / btrfs subvol=root,compress=zstd:1 0 0\n",
            &["etc/kernel/cmdline", "boot/loader/entries/one.conf"],
            &["dracut", "grub2-mkconfig"],
        );

        let first = btrfs(folder.path(), "first");
        // Something is there already, so the new number can't be the old one's.
        for number in 0..3 {
            first.subvolume(&format!("s{number}"));
            let path = first.path.join(format!("s{number}"));
            run("btrfs", &["-q", "subvolume", "delete", path.to_str().unwrap()]);
        }
        let cloned = clone(&ubuntu.path, &first.path).carry_out(|_, _| {}).unwrap();
        assert_cloned(&ubuntu.path, &first.path, &cloned);
        let new_id = subvolume::open(&first.path.join("@")).unwrap().1.id;
        assert_ne!(new_id, id);
        assert!(text(first.path.join("@/etc/fstab")).contains(&format!("subvolid={new_id},")));
        assert!(!first.path.join(".braid-clone").exists());
        assert!(!ubuntu.path.join(".braid-clone").exists());

        let second = btrfs(folder.path(), "second");
        let cloned = clone(&fedora.path, &second.path).carry_out(|_, _| {}).unwrap();
        assert_cloned(&fedora.path, &second.path, &cloned);
        assert_eq!(cloned.rewritten.len(), 3, "{:?}", cloned.rewritten);

        let full = clone(&ubuntu.path, &second.path).carry_out(|_, _| {}).unwrap_err().to_string();
        assert!(full.contains("isn't empty"), "{full}");
        let same = clone(&ubuntu.path, &root).carry_out(|_, _| {}).unwrap_err().to_string();
        assert!(same.contains("the same filesystem"), "{same}");
    });
}

/// The boot steps run in the new system, which sees itself as when it has booted; where one fails,
/// all that was put into the new filesystem can be taken back, and nothing else is.
#[test]
fn boot_steps_run_in_the_new_system_and_what_failed_is_taken_back() {
    const NAME: &str = "boot_steps_run_in_the_new_system_and_what_failed_is_taken_back";
    in_private_mounts(NAME, || {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (btrfs(folder.path(), "old"), btrfs(folder.path(), "new"));
        let uuid = filesystem(&old.path);
        let root = old.subvolume("@");
        old.subvolume("@/home");
        let install_shell = "for program in /bin/bash /bin/mount /bin/cat /bin/ls; do \
            cp -L --parents $program $(ldd $program | grep -o '/[^ )]*') $0; done; ln -s bash $0/bin/sh";
        run("bash", &["-c", install_shell, root.to_str().unwrap()]);
        let fstab = "UUID=@ / btrfs subvol=@ 0 1\nUUID=@ /home btrfs subvol=@/home 0 2\n";
        install(&root, uuid, fstab, &["boot/grub/grub.cfg"], &[]);
        let tool = |text: &str| {
            let path = root.join("usr/sbin/update-initramfs");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
            run("chmod", &["+x", path.to_str().unwrap()]);
        };
        let esp = folder.path().join("esp");
        let new_esp = folder.path().join("new esp");
        for path in [&esp, &new_esp] {
            fs::create_dir(path).unwrap();
        }
        fs::write(esp.join("loader"), "x").unwrap();
        let mut to_new = clone(&old.path, &new.path);
        to_new.beside = vec![(esp, new_esp.clone())];
        to_new.finish = true;

        tool("exit 3");
        let default = default_path(&new.path);
        let failed = to_new.carry_out(|_, _| {}).unwrap_err().to_string();
        assert!(failed.contains("update-initramfs -u -k all (initramfs) failed"), "{failed}");
        assert!(old.path.join(".braid-clone").exists() && new.path.join("@/home").exists());
        let mine = new.subvolume("mine");
        let (from, connector) = (Place::Local(old.path.clone()), Connector::default());
        let take_back = |carry_out| forget(&from, Some(&new.path), &connector, carry_out).unwrap();
        assert_eq!(take_back(false).deleted.len(), 2);
        assert!(new.path.join("@/home").exists());
        assert_eq!(take_back(true).deleted.len(), 2);
        assert_eq!(subvolumes(&new.path), [(PathBuf::from("mine"), false)]);
        assert_eq!(default_path(&new.path), default);
        assert!(!old.path.join(".braid-clone").exists() && !new.path.join(".braid-clone").exists());
        assert_eq!(subvolumes(&old.path).len(), 2, "the old system is changed");
        run("btrfs", &["-q", "subvolume", "delete", mine.to_str().unwrap()]);

        tool(
            "{ echo $*; cat /proc/self/comm; ls /dev/null /home /boot /dev/disk/by-uuid; } > /told",
        );
        fs::write(old.path.join("@/home/me"), "x").unwrap();
        let cloned = to_new.carry_out(|_, _| {}).unwrap();
        let told = text(new.path.join("@/told"));
        assert!(told.starts_with("-u -k all\ncat\n"), "{told}");
        assert!(
            told.contains("/dev/null") && told.contains("loader") && told.contains("me"),
            "{told}"
        );
        // grub-mkconfig wants it, whether udev is here or not.
        assert!(told.contains(&filesystem(&new.path).to_string()), "{told}");
        assert!(!root.join("told").exists() && cloned.plan.boot.len() == 1);
        // A complete one stays.
        assert_eq!(take_back(true).deleted, []);
        assert!(new.path.join("@/home/me").exists());
    });
}
