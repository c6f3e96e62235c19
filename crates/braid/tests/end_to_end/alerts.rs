//! People are told of what happens, whatever servers answer, and later when there was no way out.

use crate::PATIENCE;
use crate::side::Side;
use crate::stand_in::{Behaviour, Mail, StandIn, certificate};
use crate::world::{LEAVE_HOST_ALONE, Tunnel, World, link};
use braid_lab::emulator::LinkChange;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

/// A host with nothing but itself.
fn alone() -> Option<(Side, tempfile::TempDir)> {
    let namespace = match NetNs::new() {
        Ok(namespace) => namespace,
        Err(error) => {
            eprintln!("SKIPPED: no network namespaces here: {error}");
            return None;
        }
    };
    let scratch = tempfile::tempdir().unwrap();
    let side = Side::new(&namespace, scratch.path());
    side.sh("ip link set lo up");
    Some((side, scratch))
}

fn secret(folder: &std::path::Path, name: &str, text: &str, mode: u32) {
    fs::write(folder.join(name), text).unwrap();
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

#[test]
fn a_test_message_comes_to_a_webhook_ntfy_mail_and_a_command() {
    let Some((side, scratch)) = alone() else { return };
    let folder = scratch.path();
    let (tls, authority) = certificate(folder);
    let hook = StandIn::web(&side.namespace, Behaviour::Takes);
    let ntfy = StandIn::web(&side.namespace, Behaviour::Takes);
    let mail = StandIn::mail(&side.namespace, Mail::Encrypts(tls));
    secret(folder, "token", "sesame\n", 0o600);
    secret(folder, "password", "open\n", 0o600);
    let alerts = format!(
        "[[alert]]\nname = \"hook\"\nwebhook = \"http://{}/in\"\ntoken_file = \"token\"\n\
         [[alert]]\nname = \"phone\"\nntfy = \"http://{}/topic\"\n\
         [[alert]]\nname = \"mail\"\nmail = [\"me@example.org\"]\nfrom = \"router@example.org\"\n\
         smtp = \"localhost:{}\"\nuser = \"me\"\npassword_file = \"password\"\n\
         [[alert]]\nname = \"command\"\ncommand = \"cat > {}; echo $BRAID_SEVERITY\"\n",
        hook.address,
        ntfy.address,
        mail.address.port(),
        folder.join("told").display(),
    );
    side.write_config("", LEAVE_HOST_ALONE, &alerts);
    let trusts = OsString::from(format!("SSL_CERT_FILE={}", authority.display()));
    let config = folder.join("braid.toml");
    let mut braid = side.namespace.command("env");
    braid.arg(trusts).arg(env!("CARGO_BIN_EXE_braid")).args(["alert", "test", "-c"]).arg(config);
    let output = braid.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));

    let (head, body) = received(&hook);
    assert!(head.starts_with("post /in ") && head.contains("bearer sesame"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["alert"], &body["events"][0]["kind"]), (&"hook".into(), &"test".into()));
    let (head, body) = received(&ntfy);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(head.starts_with("post / ") && !head.contains("sesame"), "{head}");
    assert_eq!((&body["topic"], &body["priority"]), (&"topic".into(), &3.into()));
    let log = mail.got.recv_timeout(PATIENCE).unwrap();
    let (before, inside) = log.split_once("ENCRYPTED\n").unwrap();
    assert!(!before.contains("AUTH"), "{log}");
    for part in ["AUTH PLAIN", "RCPT TO:<me@example.org>", "Subject: ", "messages arrive"] {
        assert!(inside.contains(part), "no {part} in {log}");
    }
    let told: Value = serde_json::from_slice(&fs::read(folder.join("told")).unwrap()).unwrap();
    assert_eq!(told["alert"], "command");
}

fn received(server: &StandIn) -> (String, String) {
    let got = server.got.recv_timeout(PATIENCE).unwrap();
    let (head, body) = got.split_once("\n\n").unwrap_or(got.split_once("\r\n\n").unwrap());
    (head.to_owned(), body.to_owned())
}

#[test]
fn servers_that_mislead_or_never_end_harm_nobody_and_it_is_said_what_they_do() {
    let Some((side, scratch)) = alone() else { return };
    let elsewhere = StandIn::web(&side.namespace, Behaviour::Takes);
    let web = |behaviour| {
        format!("webhook = \"http://{}/\"", StandIn::web(&side.namespace, behaviour).address)
    };
    let mail = |mail, rest: &str| {
        let port = StandIn::mail(&side.namespace, mail).address.port();
        format!(
            "mail = [\"me@example.org\"]\nfrom = \"r@example.org\"\nsmtp = \"localhost:{port}\"\n{rest}"
        )
    };
    secret(scratch.path(), "exposed", "sesame\n", 0o644);
    let leads = Behaviour::LeadsTo(format!("http://{}/", elsewhere.address));
    let cases = [
        ("refuses", web(Behaviour::Refuses), "403 Forbidden:  [31mno such hook"),
        ("silent", web(Behaviour::IsSilent), "no answer within 20 s"),
        ("head", web(Behaviour::HasEndlessHead), "not sent"),
        ("body", web(Behaviour::HasEndlessBody), "500"),
        ("leads", web(leads), "a redirect"),
        ("away", "webhook = \"http://127.0.0.1:9/\"".to_owned(), "refused"),
        ("open", web(Behaviour::Takes) + "\ntoken_file = \"exposed\"", "chmod 600"),
        ("plain", mail(Mail::OffersNoEncryption, ""), "not sent"),
        ("endless", mail(Mail::IsEndless, "security = \"none\"\n"), "not sent"),
        ("fails", "command = \"exit 3\"".to_owned(), "exit status: 3"),
    ];
    let alerts =
        cases.iter().map(|(name, target, _)| format!("[[alert]]\nname = \"{name}\"\n{target}\n"));
    side.write_config("", LEAVE_HOST_ALONE, &alerts.collect::<String>());
    std::thread::scope(|scope| {
        for (name, _, words) in &cases {
            let side = &side;
            scope.spawn(move || {
                let output = side.braid(&["alert", "test", name]);
                let said = said(&output);
                assert_eq!(output.status.code(), Some(1), "{name}: {said}");
                assert!(said.contains(words) && !said.contains('\x1b'), "{name}: {said:?}");
                assert!(!said.contains("sesame"), "{name}: {said}");
            });
        }
    });
    assert!(elsewhere.got.try_recv().is_err(), "nothing goes where an answer leads");
}

#[test]
fn what_happens_without_a_way_out_is_shown_kept_over_a_crash_and_told_later() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.home.sh("ip link set lo up");
    let at = "127.0.0.1:8099".parse().unwrap();
    let home = Tunnel::default().home.to_owned();
    world.write_configs(&Tunnel::default());
    let config = world.scratch.path().join("home/braid.toml");
    let text = fs::read_to_string(&config).unwrap();
    let alert =
        "[[alert]]\nname = \"hook\"\nwebhook = \"http://127.0.0.1:8099/\"\ngroup = \"1s\"\n";
    fs::write(&config, format!("{text}\n{alert}")).unwrap();
    assert!(text.contains(&home));
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    world.change(1, &LinkChange::Blackout(true));
    let of_hook = |world: &World| world.home.status()["alerts"][0].clone();
    world.home.wait_until("it is shown that nobody could be told", || {
        let alert = of_hook(&world);
        let refused = alert["trouble"].as_str().is_some_and(|why| why.contains("refused"));
        refused && alert["waiting"] == 1
    });
    let listed = world.home.braid_ok(&["alert", "list"]);
    let listed = String::from_utf8(listed).unwrap();
    assert!(listed.contains("1 event waits") && listed.contains("refused"), "{listed}");
    let metrics = world.home.sh(&format!(
        "curl -s --unix-socket {} http://braid/metrics",
        world.home.socket().display()
    ));
    assert!(metrics.contains("braid_alert_waiting_events{alert=\"hook\"} 1"), "{metrics}");
    world.home.kill();
    world.home.start();
    let server = StandIn::web_at(&world.home.namespace, at, Behaviour::Takes);
    let (_, body) = received(&server);
    let body: Value = serde_json::from_str(&body).unwrap();
    let event = &body["events"][0];
    assert_eq!((&event["kind"], &event["subject"]), (&"link_down".into(), &"lte".into()), "{body}");
    world.home.wait_until("nothing waits", || of_hook(&world)["delivered"] == 1);
}
