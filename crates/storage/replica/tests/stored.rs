//! A stored stream that isn't what was stored any more is neither restored nor sent on.

use braid_loop_disks::{Btrfs, fill, in_private_mounts, run};
use braid_replica::register::{Order, Register};
use braid_replica::replicate::{Connector, Place, Replication};
use braid_replica::restore::Restoration;
use braid_replica::source::SendOptions;
use braid_units::ByteSize;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

fn replicate(from: &Path, to: &Path) -> Result<usize, String> {
    let order =
        Order { host: String::new(), from: String::new(), to: String::new(), words: vec![] };
    let replication = Replication {
        from: Place::Local(from.to_owned()),
        to: Place::Local(to.to_owned()),
        newest: false,
        anew: false,
        retries: 0,
        connector: Connector::default(),
        options: SendOptions::default(),
        order,
        register: Register::new(to.parent().unwrap().join("register")),
    };
    let done = replication.run(|_, _| {}).map_err(|error| error.to_string())?;
    Ok(done.report.snapshots.len())
}

#[test]
fn a_stream_with_another_hash_or_length_goes_nowhere() {
    in_private_mounts("a_stream_with_another_hash_or_length_goes_nowhere", || {
        let folder = tempfile::tempdir().unwrap();
        let here = Btrfs::new(folder.path(), "here", ByteSize::from_bytes(1 << 30));
        let (data, snapshots) = (here.subvolume("data"), here.path.join("snapshots"));
        fs::create_dir(&snapshots).unwrap();
        fill(&data, 1, 1 << 20);
        let taken = snapshots.join("data.1");
        let paths = [data.to_str().unwrap(), taken.to_str().unwrap()];
        run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
        let streams = folder.path().join("streams");
        fs::create_dir(&streams).unwrap();
        run("mount", &["-t", "tmpfs", "none", streams.to_str().unwrap()]);
        replicate(&snapshots, &streams).unwrap();
        let (stream, manifest) =
            (streams.join("data.1.btrfs-stream"), streams.join("data.1.btrfs-stream.json"));
        let (good, told) = (fs::read(&stream).unwrap(), fs::read_to_string(&manifest).unwrap());

        let hash = blake3::hash(&good).to_hex().to_string();
        let other_hash = blake3::hash(b"other").to_hex().to_string();
        let spoil = |what: &str| match what {
            "hash" => fs::write(&manifest, told.replace(&hash, &other_hash)).unwrap(),
            "longer" => fs::File::options()
                .append(true)
                .open(&stream)
                .and_then(|mut file| file.write_all(b"x"))
                .unwrap(),
            _ => fs::write(&stream, &good[..good.len() - 10]).unwrap(),
        };
        for what in ["hash", "longer", "shorter"] {
            spoil(what);
            let to = here.path.join(what);
            let refused = replicate(&streams, &to).unwrap_err();
            assert!(refused.contains("data.1"), "{what}: {refused}");
            assert!(!to.join("data.1").exists(), "{what}");
            let restored = here.path.join(format!("restored {what}"));
            let restoration =
                Restoration { from: stream.clone(), to: restored.clone(), replace: false };
            let refused = restoration.carry_out(SystemTime::now()).unwrap_err().to_string();
            assert!(refused.contains("isn't what was stored"), "{what}: {refused}");
            assert!(!restored.exists(), "{what}");
            fs::write(&stream, &good).unwrap();
            fs::write(&manifest, &told).unwrap();
            // Mended, what was begun is completed.
            assert_eq!(replicate(&streams, &to).unwrap(), 1, "{what}");
        }
        run("umount", &[streams.to_str().unwrap()]);
    });
}
