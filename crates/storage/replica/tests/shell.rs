//! What is tried again, and what isn't, when the remote shell fails.

use braid_replica::Error;
use braid_replica::register::{Order, Register};
use braid_replica::replicate::{Connector, Replication};
use braid_replica::source::SendOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Pulls by a program `name` that does what the script says; how often it was tried again, and what
/// came of it.
fn pull_by(name: &str, script: &str) -> (u32, Error) {
    let folder = tempfile::tempdir().unwrap();
    let shell = folder.path().join(name);
    fs::write(&shell, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let order =
        Order { host: String::new(), from: String::new(), to: String::new(), words: vec![] };
    let replication = Replication {
        from: "nas:/snapshots".parse().unwrap(),
        to: braid_replica::replicate::Place::Local(folder.path().join("to")),
        newest: false,
        anew: false,
        retries: 1,
        connector: Connector {
            shell: vec![shell.to_str().unwrap().to_owned()],
            ..Connector::default()
        },
        options: SendOptions::default(),
        order,
        register: Register::new(Path::new(folder.path()).join("register")),
    };
    let mut again = 0;
    let error = replication.run(|_, _| again += 1).unwrap_err();
    (again, error)
}

#[test]
fn what_lasts_is_not_tried_again() {
    for script in [
        "echo 'me@nas: Permission denied (publickey,password).' >&2; exit 255",
        "echo 'Host key verification failed.' >&2; exit 255",
        "cat > /dev/null & echo 'nas: Permission denied (publickey).' >&2; exit 255",
        "echo 'sudo: a password is required' >&2; exit 1",
        "exit 127",
    ] {
        let (again, error) = pull_by("ssh", script);
        assert_eq!(again, 0, "{script}: {error}");
        assert!(matches!(error, Error::Refused(_)), "{script}: {error:?}");
    }
    let (_, error) = pull_by("ssh", "echo 'me@nas: Permission denied (publickey).' >&2; exit 255");
    assert!(error.to_string().contains("Permission denied (publickey)"), "{error}");
}

/// Nothing was ever got from there.
#[test]
fn a_name_without_an_address_is_taken_for_mistyped() {
    let script = "echo 'ssh: Could not resolve hostname nas: Temporary failure in name resolution' >&2; exit 255";
    let (again, error) = pull_by("ssh", script);
    assert_eq!(again, 0, "{error}");
    assert!(error.to_string().ends_with("is its name right?"), "{error}");
}

#[test]
fn what_passes_is_tried_again() {
    for script in [
        "echo 'ssh: connect to host nas port 22: Connection refused' >&2; exit 255",
        "exit 255",
        "kill -9 $$",
    ] {
        let (again, error) = pull_by("ssh", script);
        assert_eq!(again, 1, "{script}: {error}");
        assert!(matches!(error, Error::Connection(_)), "{script}: {error:?}");
    }
    // Other shells' codes may mean anything.
    assert_eq!(pull_by("rsh", "exit 1").0, 1);
}
