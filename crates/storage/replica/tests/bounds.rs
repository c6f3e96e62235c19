//! Nobody who calls a listener is led out of its folder, whatever he sent there before.

use braid_loop_disks::{Btrfs, in_private_mounts, run};
use braid_replica::agent::{self, Allowed};
use braid_replica::exact_path::ExactPath;
use braid_replica::register::Register;
use braid_replica::source::{self, Report, SendOptions, Watch};
use braid_replica::wire::{Connection, Message, Open, PROTOCOL, Selection, Work};
use braid_replica::{Error, sink};
use braid_units::ByteSize;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A peer's disk with a subvolume, and the listener's with a folder for the peer and one that is
/// none of its business.
struct Scene {
    data: PathBuf,
    snapshots: PathBuf,
    into: PathBuf,
    outside: PathBuf,
    register: Register,
    peer: Btrfs,
    _here: Btrfs,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let size = ByteSize::from_bytes(1 << 30);
        let (peer, here) =
            (Btrfs::new(folder.path(), "peer", size), Btrfs::new(folder.path(), "here", size));
        let data = peer.subvolume("data");
        let snapshots = peer.path.join("snapshots");
        let (into, outside) = (here.path.join("into"), here.path.join("outside"));
        for path in [&snapshots, &into, &outside] {
            fs::create_dir(path).unwrap();
        }
        let register = Register::new(folder.path().join("register"));
        Scene { data, snapshots, into, outside, register, peer, _here: here, _folder: folder }
    }

    fn snapshot(&self, name: &str) -> PathBuf {
        let path = self.snapshots.join(name);
        snapshot(&self.data, &path);
        path
    }

    fn attend<T>(&self, allowed: &Allowed, work: Work, talk: impl FnOnce(Connection) -> T) -> T {
        let (mut ours, theirs) = Connection::pair();
        thread::scope(|scope| {
            scope.spawn(|| agent::serve(theirs, allowed, &self.register));
            ours.say(Message::Open(Open { protocol: PROTOCOL, work, order: None })).unwrap();
            talk(ours)
        })
    }

    fn push(&self, snapshot: &Path, folder: &str) -> Result<Report, Error> {
        let work = Work::Sink { folder: exact(folder) };
        let selection = Selection { path: snapshot.into(), newest: false, anew: false };
        self.attend(&Allowed::Into(self.into.clone()), work, |connection| {
            source::serve(connection, &selection, &SendOptions::default())
        })
    }

    fn pull(&self, path: &str, to: &Path) -> Result<usize, Error> {
        let selection = Selection { path: exact(path), newest: false, anew: false };
        let work = Work::Source { selection, limit: None };
        self.attend(&Allowed::From(self.into.clone()), work, |mut connection| {
            sink::serve(&mut connection, to, &Watch::default()).map(|received| received.names.len())
        })
    }

    /// How many things it tells of.
    fn ask(&self, work: Work) -> Result<usize, Error> {
        self.attend(&Allowed::From(self.into.clone()), work, |mut connection| {
            let mut told = 0;
            loop {
                match connection.hear(Duration::from_secs(20))? {
                    Message::Bye => return Ok(told),
                    Message::Lines(lines) => told += lines.len(),
                    Message::Stored(stored) => told += stored.len(),
                    other => panic!("{other:?}"),
                }
            }
        })
    }

    fn manifest(&self, folder: &str) -> Result<usize, Error> {
        self.ask(Work::Manifest { folder: exact(folder) })
    }

    fn stored(&self, folder: &str) -> Result<usize, Error> {
        self.ask(Work::Stored { folder: exact(folder), read: None })
    }
}

fn exact(path: &str) -> ExactPath {
    ExactPath::from(Path::new(path))
}

fn snapshot(of: &Path, to: &Path) {
    let paths = [of.to_str().unwrap(), to.to_str().unwrap()];
    run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_link_in_what_was_sent_is_no_way_to_write_outside() {
    in_private_mounts("a_link_in_what_was_sent_is_no_way_to_write_outside", || {
        let scene = Scene::new();
        // One to a folder on btrfs, one to where streams would be stored.
        let plain = tempfile::tempdir().unwrap();
        symlink(&scene.outside, scene.data.join("ln")).unwrap();
        symlink(plain.path(), scene.data.join("plain")).unwrap();
        let sent = scene.snapshot("sent");
        scene.push(&sent, "/a").unwrap();
        assert!(scene.into.join("a/sent/ln").is_symlink());

        let next = scene.snapshot("next.conf");
        for way in ["/a/sent/ln", "/a/sent/ln/system", "/a/sent/plain", "/a/sent/plain/x"] {
            let refused = scene.push(&next, way).unwrap_err().to_string();
            assert!(refused.contains("symbolic link"), "{way}: {refused}");
        }
        // By who made it a link makes no difference.
        symlink(&scene.outside, scene.into.join("ours")).unwrap();
        scene.push(&next, "/ours").unwrap_err();
        scene.push(&next, "/ours/x").unwrap_err();
        for way in ["../outside", "/../outside", "/a/../../outside", "/./../outside"] {
            scene.push(&next, way).unwrap_err();
        }
        assert_eq!(names_in(&scene.outside), [""; 0]);
        assert_eq!(names_in(plain.path()), [""; 0]);
        // What is meant goes on working: also a folder that isn't there yet.
        scene.push(&next, "/a").unwrap();
        scene.push(&next, "/b").unwrap();
        scene.push(&next, "").unwrap();
        assert!(scene.into.join("b/next.conf").is_dir() && scene.into.join("next.conf").is_dir());
    });
}

#[test]
fn what_was_sent_is_no_place_to_receive_in() {
    in_private_mounts("what_was_sent_is_no_place_to_receive_in", || {
        let scene = Scene::new();
        let victim = scene.outside.join("victim");
        fs::write(&victim, "mine").unwrap();
        for own in [".braid-replica", "inner/.braid-replica"] {
            let own = scene.data.join(own);
            fs::create_dir_all(&own).unwrap();
            for file in ["lock", "begun.json", "progress", ".begun.json.braid-new"] {
                symlink(&victim, own.join(file)).unwrap();
            }
        }
        let sent = scene.snapshot("sent");
        scene.push(&sent, "/a").unwrap();
        for way in ["/a/sent", "/a/sent/inner", "/a/sent/new", "/a/.braid-replica", "/a/.braid-x"] {
            let refused = scene.push(&sent, way).unwrap_err();
            assert!(matches!(refused, Error::Remote(_)), "{way}: {refused}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");

        // A copy of it that somebody made writable has the links too.
        let copy = scene.into.join("copy");
        run(
            "btrfs",
            &[
                "-q",
                "subvolume",
                "snapshot",
                scene.into.join("a/sent").to_str().unwrap(),
                copy.to_str().unwrap(),
            ],
        );
        scene.push(&sent, "/copy").unwrap_err();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    });
}

#[test]
fn a_link_in_what_was_sent_is_no_way_to_read_outside() {
    in_private_mounts("a_link_in_what_was_sent_is_no_way_to_read_outside", || {
        let scene = Scene::new();
        let private = scene.outside.join("private");
        run("btrfs", &["-q", "subvolume", "create", private.to_str().unwrap()]);
        fs::write(private.join("secret"), "secret").unwrap();
        snapshot(&private, &scene.outside.join("p"));
        symlink(&scene.outside, scene.data.join("priv")).unwrap();

        // A stored stream is a file with a manifest; here that file is a link.
        let stored = scene.peer.path.join("stored");
        let plain = tempfile::tempdir().unwrap();
        fs::create_dir(&stored).unwrap();
        store(&scene, plain.path());
        let folder = scene.data.join("streams");
        fs::create_dir(&folder).unwrap();
        for place in [&folder, &scene.data] {
            fs::copy(
                plain.path().join("first.btrfs-stream.json"),
                place.join("first.btrfs-stream.json"),
            )
            .unwrap();
            symlink(private.join("secret"), place.join("first.btrfs-stream")).unwrap();
            symlink(private.join("made"), place.join(".braid-replicas.json.new")).unwrap();
        }
        let sent = scene.snapshot("sent");
        scene.push(&sent, "/a").unwrap();

        let back = scene.peer.path.join("back");
        fs::create_dir(&back).unwrap();
        for way in [
            "/a/sent/priv",
            "/a/sent/priv/p",
            "/a/sent/priv/private",
            "/a/sent/streams",
            "/a/sent/streams/first",
            "/a/sent/streams/first.btrfs-stream",
            "/a/sent/first",
            "../outside",
            "/a/../../outside/p",
        ] {
            scene.pull(way, &back).unwrap_err();
        }
        assert!(names_in(&back).iter().all(|name| name.starts_with(".braid-")));
        for way in ["/a/sent/priv", "/a/sent/priv/p", "../outside"] {
            scene.manifest(way).unwrap_err();
            scene.stored(way).unwrap_err();
        }
        for way in ["/a/sent", "/a/sent/streams"] {
            assert_eq!(scene.stored(way).unwrap_or(0), 0, "{way}");
        }
        assert!(!private.join("made").exists());
        // Outside of any snapshot too: a link is no stored stream.
        let planted = scene.into.join("planted");
        fs::create_dir(&planted).unwrap();
        for name in ["first.btrfs-stream", "first.btrfs-stream.json"] {
            let from = scene.into.join("a/sent/streams").join(name);
            run("cp", &["-a", from.to_str().unwrap(), planted.to_str().unwrap()]);
        }
        assert_eq!(scene.stored("/planted").unwrap(), 0);
        scene.pull("/planted", &back).unwrap_err();

        // What is meant goes on working: a snapshot stays one, whatever is in it.
        assert_eq!(scene.pull("/a/sent", &back).unwrap(), 1);
        assert!(back.join("sent/streams").is_dir());
        let all = scene.peer.path.join("all");
        assert_eq!(scene.pull("/a", &all).unwrap(), 1);
        assert!(scene.manifest("/a/sent/streams").unwrap() > 2);
    });
}

/// One stream, as it is kept where there is no btrfs.
fn store(scene: &Scene, folder: &Path) {
    let first = scene.snapshot("first");
    let allowed = Allowed::Into(folder.to_owned());
    let work = Work::Sink { folder: exact("/") };
    let selection = Selection { path: first.as_path().into(), newest: false, anew: false };
    scene
        .attend(&allowed, work, |connection| {
            source::serve(connection, &selection, &SendOptions::default())
        })
        .unwrap();
    assert!(folder.join("first.btrfs-stream.json").is_file());
}
