//! Join lines, which let in whoever has one.

use crate::server::{HOSTILE, Server};
use braid_control::request::{Refusal, UiRole};
use braid_page::homes::{HomeLine, HomePlan, Homes, Joined, NewHome, OnceShown};
use std::sync::Mutex;

/// Records requests.
#[derive(Default)]
pub struct FakeHomes {
    told: Mutex<Vec<String>>,
}

const LINE: &str = "braid-join:SECRET";

impl FakeHomes {
    fn note(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }

    fn line(&self) -> OnceShown {
        OnceShown { line: LINE.into(), until_unix: 1_800_000_000, trouble: Some(HOSTILE.into()) }
    }
}

impl Homes for FakeHomes {
    fn all(&self) -> Vec<HomeLine> {
        let home = |name: &str, joined| HomeLine {
            name: name.into(),
            addresses: vec!["10.77.0.2".into()],
            joined,
            last_seen_unix: None,
        };
        vec![home("cabin", Joined::Joined), home("tent", Joined::Invited(1_800_000_000))]
    }

    fn plan(&self, wish: &NewHome) -> Result<HomePlan, Refusal> {
        if wish.name == "cabin" {
            return Err(Refusal::Invalid(HOSTILE.into()));
        }
        Ok(HomePlan {
            addresses: vec![HOSTILE.into()],
            endpoints: vec![HOSTILE.into()],
            file: HOSTILE.into(),
            trouble: None,
        })
    }

    fn add(&self, wish: &NewHome) -> Result<OnceShown, Refusal> {
        let NewHome { name, valid, endpoints, addresses } = wish;
        self.note(format!("add {name} {valid} {} {}", endpoints.join("+"), addresses.join("+")));
        Ok(self.line())
    }

    fn renew(&self, name: &str, valid: &str) -> Result<OnceShown, Refusal> {
        self.note(format!("renew {name} {valid}"));
        Ok(self.line())
    }

    fn revoke(&self, name: &str) -> Result<(), Refusal> {
        self.note(format!("revoke {name}"));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.note(format!("remove {name}"));
        Ok(())
    }
}

fn told(server: &Server) -> Vec<String> {
    server.fake.homes.told.lock().unwrap().clone()
}

/// Each order with its form's fields.
const ORDERS: [(&str, &str); 4] = [
    ("/new-home", "name=boat&valid=7d&endpoints=a.example:1,+b.example:2&addresses=10.77.0.9"),
    ("/homes/cabin/renew", "typed=cabin&valid=1h"),
    ("/homes/tent/revoke", ""),
    ("/homes/cabin/remove", "typed=cabin"),
];

#[test]
fn only_an_admin_lets_homes_in_and_shuts_them_out() {
    let server = Server::start();
    let own = server.origin();
    let (reader, form) = server.log_in(UiRole::Reader);
    for (path, fields) in ORDERS {
        assert_eq!(server.post(path, &own, fields).status, 403, "{path}: nobody");
        let fields = format!("form={form}&{fields}");
        let refused = server.post(path, &format!("{reader}{own}"), &fields);
        assert_eq!(refused.status, 403, "{path}: a reader");
        assert!(refused.body.contains("log in as admin"), "{}", refused.body);
    }
    let (admin, form) = server.log_in(UiRole::Admin);
    for (path, fields) in ORDERS {
        let mine = format!("form={form}&{fields}");
        for (what, headers, fields) in [
            ("no form's token", own.clone(), fields),
            ("no origin", String::new(), mine.as_str()),
            ("another's page", "Origin: http://evil.example\r\n".to_owned(), mine.as_str()),
        ] {
            let status = server.post(path, &format!("{admin}{headers}"), fields).status;
            assert_eq!(status, 403, "{path}: {what}");
        }
        // Opening the address alone changes nothing.
        let asked = server.get(&format!("{path}?{mine}"), &admin);
        assert!(!asked.body.contains(LINE), "{path}");
    }
    assert_eq!(told(&server), Vec::<String>::new());
    for (path, fields) in ORDERS {
        let done = server.post(path, &format!("{admin}{own}"), &format!("form={form}&{fields}"));
        assert!(matches!(done.status, 200 | 303), "{path}: {done:?}");
    }
    assert_eq!(
        told(&server),
        [
            "add boat 7d a.example:1+b.example:2 10.77.0.9",
            "renew cabin 1h",
            "revoke tent",
            "remove cabin"
        ]
    );
}

#[test]
fn a_line_is_in_no_cache_no_address_and_shown_once() {
    let server = Server::start();
    let (admin, form) = server.log_in(UiRole::Admin);
    let own = format!("{admin}{}", server.origin());
    for (path, fields) in &ORDERS[..2] {
        let shown = server.post(path, &own, &format!("form={form}&{fields}"));
        assert_eq!((shown.status, shown.header("location")), (200, None));
        assert_eq!(shown.header("cache-control"), Some("no-store"));
        // It is only in the part that the script removes when the page is left.
        let secret = shown.body.split("data-once").nth(1).unwrap();
        assert!(secret.contains(LINE) && secret.contains("<svg class=\"qr\""), "{secret}");
        assert_eq!(shown.body.matches(LINE).count(), 1);
        assert!(!shown.head.contains("SECRET") && !shown.body.contains("<script>alert"));
    }
    for path in ["/homes", "/homes/cabin", "/homes/boat", "/events"] {
        let page = server.get(path, &admin);
        assert!(!page.body.contains("SECRET"), "{path}");
    }
}

#[test]
fn who_has_joined_is_not_shut_out_by_a_click() {
    let server = Server::start();
    let (admin, form) = server.log_in(UiRole::Admin);
    let own = format!("{admin}{}", server.origin());
    for path in ["/homes/cabin/remove", "/homes/cabin/renew"] {
        for typed in ["", "&typed=", "&typed=tent", "&typed=CABIN"] {
            let refused = server.post(path, &own, &format!("form={form}{typed}"));
            assert_eq!(refused.status, 400, "{path} {typed}");
            assert!(refused.body.contains("type its name"), "{}", refused.body);
        }
        assert!(server.get(path, &admin).body.contains("name=\"typed\""));
    }
    for path in ["/homes/nobody/remove", "/homes/%3Cscript%3E/renew", "/homes/cabin/eat"] {
        assert_eq!(server.post(path, &own, &format!("form={form}")).status, 404, "{path}");
    }
    assert_eq!(told(&server), Vec::<String>::new());
    // An unused line is nobody's router.
    assert_eq!(
        server.post("/homes/tent/renew", &own, &format!("form={form}&valid=1h")).status,
        200
    );
}

#[test]
fn what_is_said_before_is_text() {
    let server = Server::start();
    let (admin, _) = server.log_in(UiRole::Admin);
    for path in [
        "/new-home?name=%3Cscript%3Ealert(1)%3C/script%3E&valid=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/new-home?name=cabin",
        "/homes?removed=%3Cscript%3Ealert(1)%3C/script%3E",
        "/homes",
        "/homes/cabin/renew",
        "/homes/tent/revoke",
    ] {
        let page = server.get(path, &admin);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("<script>alert"), "{path}: {}", page.body);
    }
}
