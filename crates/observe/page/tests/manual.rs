//! Braid's own manual on the page: requested by hand, and read in a real browser.
#![cfg(feature = "manual")]

use braid_browser::{Axe, Browser, keys};
use braid_control::config::LinkChange;
use braid_control::request::Refusal;
use braid_control::status::Status;
use braid_history::Recorder;
use braid_page::server::{Listeners, serve};
use braid_page::{LinkWish, Page, PoolsLook, Settings, Shown};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A host without a tunnel.
struct Nothing;

impl Shown for Nothing {
    fn status(&self) -> Option<Status> {
        None
    }

    fn history(&self) -> Option<&Recorder> {
        None
    }

    fn pools(&self) -> Option<PoolsLook> {
        None
    }

    fn link(&self, _: &str) -> Option<LinkWish> {
        None
    }

    fn set_link(&self, name: &str, _: LinkChange) -> Result<(), Refusal> {
        Err(Refusal::NotFound(name.into()))
    }
}

/// Calls `body` while the page is being served.
fn with_page(body: impl FnOnce(SocketAddr)) {
    let settings = Settings {
        name: "pools".into(),
        hosts: Vec::new(),
        password_file: "/nonexistent/password".into(),
        at: None,
        tls: false,
        login_command: "braid ui login --socket /run/braid/x.ui".into(),
        fingerprint: None,
    };
    let page = Page::new(Arc::new(Nothing), settings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let at = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let serving = runtime.spawn(serve(
        page,
        Listeners { tcp: Some(listener), tls: None, unix: None },
        stopped,
    ));
    body(at);
    stop.send(true).unwrap();
    runtime.block_on(serving).unwrap();
}

fn get(at: SocketAddr, path: &str, more: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).unwrap().to_lowercase(), body)
}

#[test]
fn it_comes_packed_or_not_is_asked_for_anew_and_has_nothing_else() {
    with_page(|at| {
        let (head, _) = get(at, "/manual", "");
        assert!(
            head.starts_with("http/1.1 303") && head.contains("location: /manual/\r"),
            "{head}"
        );
        let (head, plain) = get(at, "/manual/", "");
        assert!(head.starts_with("http/1.1 200") && head.contains("text/html"), "{head}");
        assert!(!head.contains("content-encoding") && plain.starts_with(b"<!doctype html>"));
        let (head, packed) = get(at, "/manual/", "Accept-Encoding: br, gzip\r\n");
        assert!(head.contains("content-encoding: gzip"), "{head}");
        assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < plain.len());
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let tag = tag.replace("w/", "W/");
        let (head, nothing) = get(at, "/manual/", &format!("If-None-Match: \"x\", {tag}\r\n"));
        assert!(head.starts_with("http/1.1 304") && nothing.is_empty(), "{head}");
        for path in ["/manual/no.html", "/manual/../links", "/manual/%2e%2e/style.css", "/manual//"]
        {
            let (head, _) = get(at, path, "");
            assert!(head.starts_with("http/1.1 404"), "{path}: {head}");
        }
        // As on the whole page, whoever isn't on this host must log in.
        let (head, _) = get(at, "/manual/", "X-Forwarded-For: 192.0.2.1\r\n");
        assert!(head.starts_with("http/1.1 303") && head.contains("location: /login"), "{head}");
    });
}

#[test]
fn it_is_found_read_and_searched_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let axe = Axe::fetch(Path::new(env!("CARGO_TARGET_TMPDIR")));
    with_page(|at| {
        browser.open(&format!("http://{at}/"));
        browser.click("nav a[href='/manual/']");
        browser.wait_until("return document.title === \"Braid's manual\"");
        browser.click("main a[href$='guide/home.html']");
        browser.wait_until("return document.querySelector('article h1')");
        browser.keys(".search", "kill switch");
        browser.wait_until("return document.querySelectorAll('.hits a').length");
        browser.keys(".search", keys::ENTER);
        let marked = "return document.querySelector('article mark')?.textContent";
        assert!(browser.wait_until(marked).as_str().unwrap().to_lowercase().contains("kill"));
        // The page's policy allows all of it to run, and nothing is missing.
        assert_eq!(browser.console(), [""; 0]);
        if let Some(axe) = axe {
            assert_eq!(browser.violations(&axe), [""; 0]);
        }
    });
}
