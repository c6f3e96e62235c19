//! Both stores keep what a store promises; etcd also with a quorum lost and with a member cut off.

use braid_registry::{
    Concentrator, Etcd, EtcdAccess, Expected, Home, Known, Life, Member, Own, Served, Sqlite,
    Store, StoreError, Written,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_file_keeps_what_a_store_promises() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.db");
    let open = || Box::new(Sqlite::open(&file).unwrap()) as Box<dyn Store>;
    keeps_its_promises(&open);
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    let files = std::fs::read_dir(folder.path()).unwrap();
    for file in files {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}: there are secrets in it", file.display());
    }
}

#[test]
fn a_file_that_others_may_read_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.db");
    drop(Sqlite::open(&file).unwrap());
    let allow = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    allow(0o640);
    let Err(error) = Sqlite::open(&file) else { panic!("it was used") };
    assert!(error.to_string().contains("(mode 0640), but contains keys: `chmod 600"), "{error}");
    allow(0o600);
    Sqlite::open(&file).unwrap();
}

#[test]
fn anothers_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("others.db");
    std::fs::write(&file, "no database at all, and long enough to tell").unwrap();
    assert!(matches!(Sqlite::open(&file), Err(StoreError::Foreign(_))));
    assert!(matches!(Sqlite::open(folder.path()), Err(StoreError::Unreachable(_))));
}

#[test]
fn what_a_newer_braid_wrote_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.db");
    drop(Sqlite::open(&file).unwrap());
    let newer = rusqlite::Connection::open(&file).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    drop(newer);
    let Err(error) = Sqlite::open(&file) else { panic!("it was used") };
    assert!(error.to_string().contains("a newer braid wrote it (format 2, not 1)"), "{error}");
}

#[test]
fn etcd_keeps_what_a_store_promises() {
    let Some(cluster) = Cluster::start(1) else { return };
    keeps_its_promises(&|| Box::new(cluster.store()));
}

#[test]
fn without_a_quorum_nothing_is_promised_and_with_one_all_goes_on() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let mut store = cluster.store();
    assert_eq!(store.write("k", "1", Expected::Absent, Life::Lasting).unwrap(), Written::Done);
    // One may go.
    cluster.stop(0);
    until("two of three do", || {
        store.write("k", "2", Expected::Any, Life::Lasting).is_ok_and(|it| it == Written::Done)
    });
    cluster.stop(1);
    let begun = Instant::now();
    let refused = store.write("k", "3", Expected::Any, Life::Lasting);
    assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
    assert!(matches!(store.read(), Err(StoreError::Unreachable(_))), "nor an old value");
    assert!(matches!(store.keep_alive(LEASE), Err(StoreError::Unreachable(_))));
    assert!(begun.elapsed() < PATIENCE, "each wait has a deadline");
    cluster.restart(0);
    cluster.restart(1);
    until("it goes on", || store.read().is_ok());
    // A change without an answer may have been made.
    let value = store.read().unwrap()[0].value.clone();
    assert!(["2", "3"].contains(&value.as_str()), "{value}");
}

#[test]
fn one_that_is_cut_off_owns_nothing_longer_than_its_lease() {
    let Some(cluster) = Cluster::start(1) else { return };
    let (mut alone, mut other) = (cluster.store(), cluster.store());
    assert!(!alone.keep_alive(LEASE).unwrap());
    assert!(!other.keep_alive(LEASE).unwrap());
    alone.write("served/home", "alone", Expected::Absent, Life::Writer).unwrap();
    let taken = other.write("served/home", "other", Expected::Absent, Life::Writer).unwrap();
    assert_eq!(taken, Written::Conflict, "there is an owner");
    // From now on this member is cut off.
    until("the lease is over", || {
        other.keep_alive(LEASE).unwrap();
        let write = other.write("served/home", "other", Expected::Absent, Life::Writer);
        write.unwrap() == Written::Done
    });
    // It is back, and learns that it has lost its entries.
    let late = alone.write("served/home", "alone", Expected::Any, Life::Writer).unwrap();
    assert_eq!(late, Written::Conflict, "of a life that is over nothing counts");
    assert!(!alone.keep_alive(LEASE).unwrap(), "another life");
    assert_eq!(alone.read().unwrap()[0].value, "other");
}

#[test]
fn a_member_that_hangs_is_asked_once_and_another_one_answers() {
    let Some(cluster) = Cluster::start(3) else { return };
    let mut store = cluster.store();
    store.read().unwrap();
    // Whichever is the leader: the member hangs, and its connections stay open.
    cluster.signal(0, "STOP");
    until("the others do", || store.write("k", "1", Expected::Any, Life::Lasting).is_ok());
    store.read().unwrap();
    cluster.signal(1, "STOP");
    assert!(matches!(store.read(), Err(StoreError::Unreachable(_))));
    cluster.signal(0, "CONT");
    cluster.signal(1, "CONT");
    until("it goes on", || store.read().is_ok());
}

#[test]
fn etcd_is_trusted_by_its_certificate_and_trusts_a_user_with_the_fleets_prefix_alone() {
    let Some(mut cluster) = Cluster::start_with(1, true) else { return };
    for command in [
        "user add root:secret",
        "user add braid:password",
        "role add fleet",
        "role grant-permission --prefix=true fleet readwrite braid/",
        "user grant-role braid fleet",
        "user grant-role root root",
        "auth enable",
    ] {
        cluster.control(command);
    }
    let as_user = |access: EtcdAccess, password: &str| EtcdAccess {
        user: Some(("braid".to_owned(), password.to_owned())),
        ..access
    };
    let access = as_user(cluster.access(), "password");
    let mut store = Etcd::open(access.clone()).unwrap();
    assert_eq!(store.write("k", "1", Expected::Absent, Life::Lasting).unwrap(), Written::Done);
    assert!(!store.keep_alive(LEASE).unwrap());
    // Its tokens are forgotten with it.
    cluster.stop(0);
    cluster.restart(0);
    until("it is back", || store.read().is_ok());
    assert_eq!(store.read().unwrap()[0].value, "1");

    let refused = |access: EtcdAccess| {
        let error = Etcd::open(access).unwrap().read().unwrap_err().to_string();
        assert!(!error.contains("password\""), "{error}");
        error
    };
    let wrong = refused(as_user(cluster.access(), "not it"));
    assert!(wrong.contains("refuses") && !wrong.contains("not it"), "{wrong}");
    assert!(refused(cluster.access()).contains("refuses"), "nobody");
    let beside = refused(EtcdAccess { prefix: "other/".to_owned(), ..access.clone() });
    assert!(beside.contains("permission denied"), "{beside}");
    let named = cluster.tls.as_ref().map(|tls| tls.named.clone().into());
    let named = refused(EtcdAccess { certificate: named, ..access.clone() });
    assert!(named.contains("CommonName"), "{named}");
    let uncertified = refused(EtcdAccess { certificate: None, ..access.clone() });
    assert!(uncertified.contains("can't be reached"), "{uncertified}");
    let other = tempfile::tempdir().unwrap();
    let stranger = Certificates::make(other.path());
    let untrusted = refused(EtcdAccess { ca_file: Some(stranger.ca), ..access.clone() });
    assert!(untrusted.contains("can't be reached"), "{untrusted}");
    let no_file = EtcdAccess { ca_file: Some(other.path().join("none.pem")), ..access };
    let missing = Etcd::open(no_file).err().unwrap().to_string();
    assert!(missing.contains("none.pem"), "{missing}");
}

#[test]
fn from_an_old_snapshot_the_fleet_is_whole_again() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let mut fleet = [Concerned::new("a", &cluster), Concerned::new("b", &cluster)];
    fleet[0].own.homes.insert("cabin".into(), Home::default());
    fleet[0].own.served.insert("cabin".into(), 5);
    until_known(&mut fleet, "a serves", |known| served(known, "cabin") == Some(("a", 5)));
    let snapshot = cluster.folder.path().join("snapshot");
    cluster.control(&format!("snapshot save {}", snapshot.display()));

    // What the snapshot doesn't contain: another home, and that the first one has moved.
    fleet[1].own.homes.insert("boat".into(), Home::default());
    fleet[0].own.served.clear();
    fleet[1].own.served.insert("cabin".into(), 6);
    let moved = |known: &Known| {
        served(known, "cabin") == Some(("b", 6)) && known.fleet.homes.contains_key("boat")
    };
    until_known(&mut fleet, "it has moved", moved);

    (0..3).for_each(|member| cluster.stop(member));
    cluster.restore(&snapshot);
    (0..3).for_each(|member| cluster.restart(member));
    until_known(&mut fleet, "all is known again", moved);
    let alive = |known: &Known| known.fleet.alive.len() == 2;
    until_known(&mut fleet, "both live", alive);
}

/// A concentrator, and what it knows.
struct Concerned {
    own: Own,
    member: Member,
    store: Etcd,
}

impl Concerned {
    fn new(name: &str, cluster: &Cluster) -> Concerned {
        let public_key = format!("key of {name}");
        let concentrator = Concentrator { public_key, capacity: 10, ..Concentrator::default() };
        let own = Own { name: name.to_owned(), concentrator, ..Own::default() };
        Concerned { own, member: Member::default(), store: cluster.store() }
    }
}

/// Runs rounds of all in turn until all of them know it.
fn until_known(fleet: &mut [Concerned], what: &str, holds: impl Fn(&Known) -> bool) {
    until(what, || {
        let mut all = true;
        for Concerned { own, member, store } in fleet.iter_mut() {
            all &= member.round(store, own, Instant::now).is_ok_and(|known| holds(&known));
        }
        all
    });
}

fn served<'a>(known: &'a Known, home: &str) -> Option<(&'a str, u64)> {
    let (Served { by, epoch }, _) = known.fleet.served.get(home)?;
    Some((by, *epoch))
}

/// What holds for each store; `open` opens the same store as another program.
fn keeps_its_promises(open: &dyn Fn() -> Box<dyn Store>) {
    let (mut one, mut two) = (open(), open());
    assert_eq!(one.read().unwrap(), []);
    let text = "{\"ü\": \"\\n\"}";
    let lasting = Life::Lasting;
    assert_eq!(one.write("home/b", text, Expected::Absent, lasting).unwrap(), Written::Done);
    assert_eq!(two.write("home/b", "x", Expected::Absent, lasting).unwrap(), Written::Conflict);
    assert_eq!(two.write("home/a", "1", Expected::Any, lasting).unwrap(), Written::Done);
    let found = two.read().unwrap();
    let keys: Vec<&str> = found.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!((keys, found[1].value.as_str()), (vec!["home/a", "home/b"], text));
    let version = Expected::Version(found[0].version);
    assert_eq!(one.write("home/a", "2", version, lasting).unwrap(), Written::Done);
    assert_eq!(two.write("home/a", "3", version, lasting).unwrap(), Written::Conflict);
    assert_eq!(two.remove("home/a", version).unwrap(), Written::Conflict);
    assert_eq!(one.read().unwrap()[0].value, "2");
    let version = Expected::Version(one.read().unwrap()[0].version);
    assert_eq!(two.remove("home/a", version).unwrap(), Written::Done);
    // The same key again is another version.
    assert_eq!(one.write("home/a", "4", version, lasting).unwrap(), Written::Conflict);
    assert_eq!(two.read().unwrap().len(), 1, "one gone");
    assert_eq!(two.write("home/c", "5", Expected::Any, lasting).unwrap(), Written::Done);
    assert_eq!(one.remove("home/b", Expected::Any).unwrap(), Written::Done);
    let read = |store: &mut dyn Store| -> Vec<String> {
        store.read().unwrap().into_iter().map(|entry| entry.key).collect()
    };
    assert_eq!(read(one.as_mut()), ["home/c"], "one gone and one more");
    assert_eq!(read(two.as_mut()), ["home/c"]);
    assert_eq!(one.remove("home/c", Expected::Any).unwrap(), Written::Done);

    // Entries that live as long as their writer.
    assert!(!one.keep_alive(LEASE).unwrap(), "a new life");
    assert!(one.keep_alive(LEASE).unwrap(), "the same");
    assert_eq!(one.write("alive/one", "", Expected::Any, Life::Writer).unwrap(), Written::Done);
    assert_eq!(two.read().unwrap().len(), 1);
    let kept = Instant::now();
    while kept.elapsed() < LEASE * 2 {
        one.keep_alive(LEASE).unwrap();
        assert_eq!(two.read().unwrap().len(), 1, "it lives");
        std::thread::sleep(LEASE / 10);
    }
    drop(one);
    until("it is gone with its writer", || two.read().unwrap().is_empty());
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Members of etcd on this host, each with a folder of its own.
struct Cluster {
    folder: tempfile::TempDir,
    /// Ports for clients and for other members.
    ports: Vec<[u16; 2]>,
    members: Vec<Option<Child>>,
    /// With mutual TLS.
    tls: Option<Certificates>,
}

impl Cluster {
    /// `None` if etcd isn't installed.
    fn start(count: usize) -> Option<Cluster> {
        Cluster::start_with(count, false)
    }

    fn start_with(count: usize, tls: bool) -> Option<Cluster> {
        for (program, argument) in [("etcd", "--version"), ("etcdctl", "version")] {
            if Command::new(program).arg(argument).output().is_err() {
                eprintln!("SKIPPED: {program} isn't installed, see ./setup");
                return None;
            }
        }
        // Held together, so that no two are the same.
        let held: Vec<TcpListener> =
            (0..count * 2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |number: usize| held[number].local_addr().unwrap().port();
        let ports = (0..count).map(|member| [port(member * 2), port(member * 2 + 1)]).collect();
        drop(held);
        let folder = tempfile::tempdir().unwrap();
        let members = (0..count).map(|_| None).collect();
        let tls = tls.then(|| Certificates::make(folder.path()));
        let mut cluster = Cluster { folder, ports, members, tls };
        (0..count).for_each(|member| cluster.restart(member));
        let mut store = cluster.store();
        until("etcd answers", || store.read().is_ok());
        Some(cluster)
    }

    fn restart(&mut self, member: usize) {
        let peer = |member: usize| format!("http://127.0.0.1:{}", self.ports[member][1]);
        let client = self.endpoint(member);
        let all: Vec<String> =
            (0..self.ports.len()).map(|member| format!("m{member}={}", peer(member))).collect();
        let mut command = Command::new("etcd");
        command.env_clear();
        command.args(["--name", &format!("m{member}"), "--initial-cluster", &all.join(",")]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer(member)]);
        command.args(["--initial-advertise-peer-urls", &peer(member)]);
        command.arg("--data-dir").arg(self.data(member));
        if let Some(tls) = &self.tls {
            let [certificate, key] = &tls.server;
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&tls.ca);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.members[member] = Some(spawn(&mut command));
    }

    fn endpoint(&self, member: usize) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.ports[member][0])
    }

    /// Runs etcdctl, as an administrator would.
    fn control(&self, arguments: &str) {
        let mut command = Command::new("etcdctl");
        command.env_clear().env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint(0)]);
        if let Some(tls) = &self.tls {
            let [certificate, key] = &tls.client;
            command.arg("--cacert").arg(&tls.ca).arg("--cert").arg(certificate);
            command.arg("--key").arg(key);
        }
        let output = command.args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
    }

    /// Restarts all members from a snapshot.
    fn restore(&self, snapshot: &Path) {
        let peer = |member: usize| format!("http://127.0.0.1:{}", self.ports[member][1]);
        let all: Vec<String> =
            (0..self.ports.len()).map(|member| format!("m{member}={}", peer(member))).collect();
        for member in 0..self.ports.len() {
            std::fs::remove_dir_all(self.data(member)).unwrap();
            self.control(&format!(
                "snapshot restore {} --name m{member} --initial-cluster {} \
                 --initial-advertise-peer-urls {} --data-dir {}",
                snapshot.display(),
                all.join(","),
                peer(member),
                self.data(member).display()
            ));
        }
    }

    fn signal(&self, member: usize, name: &str) {
        let child = self.members[member].as_ref().unwrap();
        let mut command = Command::new("kill");
        command.args([&format!("-{name}"), &child.id().to_string()]);
        assert!(command.status().unwrap().success());
    }

    fn data(&self, member: usize) -> PathBuf {
        Path::join(self.folder.path(), format!("m{member}"))
    }

    fn stop(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn store(&self) -> Etcd {
        Etcd::open(self.access()).unwrap()
    }

    fn access(&self) -> EtcdAccess {
        let tls = self.tls.as_ref();
        EtcdAccess {
            endpoints: (0..self.ports.len()).map(|member| self.endpoint(member)).collect(),
            prefix: "braid/".to_owned(),
            ca_file: tls.map(|tls| tls.ca.clone()),
            certificate: tls.map(|tls| tls.client.clone().into()),
            user: None,
        }
    }
}

fn spawn(command: &mut Command) -> Child {
    command.spawn().unwrap()
}

/// PEM files: an authority, and certificates with their keys that it has signed.
struct Certificates {
    ca: PathBuf,
    server: [PathBuf; 2],
    client: [PathBuf; 2],
    /// With a common name, which etcd's gateway refuses.
    named: [PathBuf; 2],
}

impl Certificates {
    fn make(folder: &Path) -> Certificates {
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = write("ca.pem", params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        let signed = |name: &str, common_name: bool| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            if !common_name {
                params.distinguished_name = DistinguishedName::new();
            }
            params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
            // etcd's gateway is a client of its own server, with that certificate.
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let certificate = params.signed_by(&key, &issuer).unwrap().pem();
            let file = write(&format!("{name}.pem"), certificate);
            [file, write(&format!("{name}.key"), key.serialize_pem())]
        };
        Certificates {
            server: signed("server", false),
            client: signed("client", false),
            named: signed("named", true),
            ca,
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.stop(member));
    }
}
