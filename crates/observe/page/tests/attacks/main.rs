//! What somebody with a browser, curl or a raw socket can try. Each test has its own server on a
//! port of this host.

mod homes;
mod reports;
mod server;

use braid_control::config::LinkChange;
use braid_control::measured::NewMeasure;
use braid_control::request::UiRole;
use braid_page::access::password;
use braid_page::{Page, Settings};
use server::{Answer, Server, read_all};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn a_name_that_others_point_here_is_refused() {
    let server = Server::start();
    for host in ["evil.example", "evil.example:5190", "localhost.evil.example", "a@127.0.0.1", ""] {
        for path in ["/", "/links", "/login", "/live", "/style.css"] {
            let answer = server
                .ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
            assert!(matches!(answer.status, 400 | 421), "{host} {path}: {answer:?}");
            assert!(!answer.body.contains("dsl"), "{answer:?}");
        }
    }
    let none = server.ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(none.status, 421);
    let two = server.ask(
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(two.status, 421, "{two:?}");
    let absolute = server
        .ask("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(absolute.status, 421, "{absolute:?}");
    for host in ["localhost", "127.0.0.1:9999", "[::1]:5190"] {
        let answer =
            server.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
}

#[test]
fn who_is_not_of_this_host_logs_in_even_behind_a_proxy_on_it() {
    let server = Server::start();
    let of = |host: &str, more: &str, path: &str| {
        server
            .ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"))
    };
    for path in ["/", "/links", "/links/dsl", "/events", "/disks", "/live", "/no/such"] {
        for (host, more) in [
            ("router.lan", ""),
            ("192.0.2.7:5190", ""),
            ("localhost", "X-Forwarded-For: 198.51.100.9\r\n"),
            ("localhost", "Forwarded: for=198.51.100.9\r\n"),
            ("localhost", "Via: 1.1 proxy\r\n"),
        ] {
            let answer = of(host, more, path);
            assert_eq!(answer.status, 303, "{host} {more} {path}: {answer:?}");
            assert_eq!(answer.header("location"), Some("/login"));
            assert!(answer.body.is_empty());
        }
    }
    let login = of("router.lan", "", "/login");
    assert_eq!(login.status, 200);
    // The command that works on this host.
    assert!(login.body.contains("braid ui login --socket /run/braid/x.ui"), "{login:?}");
}

#[test]
fn a_form_of_another_page_changes_nothing() {
    let server = Server::start();
    let (cookie, form) = server.log_in(UiRole::Admin);
    let right = format!("form={form}&tier=3");
    let sent = |origin: &str, form: &str| {
        server.post("/links/dsl", &format!("{cookie}{origin}"), form).status
    };
    for origin in [
        "",
        "Origin: null\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Origin: https://\r\n",
    ] {
        assert_eq!(sent(origin, &right), 403, "{origin}");
    }
    let cross = format!("Origin: http://{}\r\nSec-Fetch-Site: cross-site\r\n", server.at);
    assert_eq!(sent(&cross, &right), 403);
    let own = server.origin();
    let other = server.log_in(UiRole::Admin).1;
    for form in ["tier=3", "form=&tier=3", "form=x&tier=3", &format!("form={other}&tier=3")] {
        assert_eq!(sent(&own, form), 403, "{form}");
    }
    assert_eq!(server.told(), 0);
    assert_eq!(sent(&own, &right), 303);
    assert_eq!(server.told(), 1);
    // Opening the address alone changes nothing.
    for path in ["/links/dsl?tier=9", "/links/dsl/change?tier=9", "/logout"] {
        server.get(path, &cookie);
    }
    assert_eq!(server.told(), 1);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"] {
        let request = format!(
            "{method} /links/dsl HTTP/1.1\r\nHost: {}\r\n{cookie}{own}Connection: close\r\n\r\n",
            server.at
        );
        let status = server.ask(&request).status;
        assert!(matches!(status, 400..=499), "{method}: {status}");
    }
    assert_eq!(server.told(), 1);
}

#[test]
fn a_reader_changes_nothing_and_who_logged_out_is_out() {
    let server = Server::start();
    let (reader, form) = server.log_in(UiRole::Reader);
    let own = server.origin();
    let answer =
        server.post("/links/dsl", &format!("{reader}{own}"), &format!("form={form}&tier=3"));
    assert_eq!(answer.status, 403);
    // Nobody is logged in.
    let answer = server.post("/links/dsl", &own, &format!("form={form}&tier=3"));
    assert_eq!(answer.status, 403);
    let (admin, form) = server.log_in(UiRole::Admin);
    assert_eq!(
        server.post("/logout", &format!("{admin}{own}"), &format!("form={form}")).status,
        303
    );
    let answer =
        server.post("/links/dsl", &format!("{admin}{own}"), &format!("form={form}&tier=3"));
    assert_eq!((answer.status, server.told()), (403, 0));
    for cookie in ["Cookie: braid-braid0=\r\n", "Cookie: braid-braid0=AAAA\r\n", "Cookie: =;;=\r\n"]
    {
        assert_eq!(server.get("/", cookie).status, 200);
    }
}

#[test]
fn who_uses_the_tunnel_is_told_to_who_logged_in_and_only_an_admin_measures() {
    let server = Server::start();
    for path in ["/traffic", "/traffic/tablet", "/live?view=traffic"] {
        let answer = server.get(path, "");
        assert_eq!(answer.status, 403, "{path}");
        assert!(!answer.body.contains("203.0.113.7"), "{path}");
    }
    let (reader, form) = server.log_in(UiRole::Reader);
    let traffic = server.get("/traffic", &reader).body;
    assert!(traffic.contains("203.0.113.7") && traffic.contains("1234567"), "flows and rules");
    let own = server.origin();
    let measure = |cookie: &str, form: &str| {
        let wish = format!("form={form}&link=dsl&metered=");
        server.post("/measure", &format!("{cookie}{own}"), &wish).status
    };
    assert_eq!(measure(&reader, &form), 403);
    assert_eq!(measure("", &form), 403);
    let (admin, right) = server.log_in(UiRole::Admin);
    assert_eq!(measure(&admin, "x"), 403);
    server.get("/measure?link=dsl", &admin);
    assert_eq!(server.fake.measured.lock().unwrap().len(), 0);
    assert_eq!(measure(&admin, &right), 303);
    let wish = NewMeasure { link: Some("dsl".into()), ..NewMeasure::default() };
    assert_eq!(*server.fake.measured.lock().unwrap(), [wish]);
}

#[test]
fn by_tls_cookies_go_by_tls_alone() {
    let server = Server::start();
    let settings = Settings {
        name: "braid0".into(),
        hosts: Vec::new(),
        password_file: server.password_file(),
        at: None,
        tls: true,
        login_command: "braid ui login --socket /run/braid/x.ui".into(),
        fingerprint: Some("AB:CD".into()),
    };
    let link = Page::new(server.fake.clone(), settings).login_link(UiRole::Admin, server.at);
    assert!(link.url.starts_with("https://"), "{}", link.url);
    assert_eq!(link.certificate.as_deref(), Some("AB:CD"));
}

#[test]
fn a_login_link_is_good_once_and_a_changed_password_ends_all_sessions() {
    let server = Server::start();
    let url = server.page.login_link(UiRole::Admin, server.at).url;
    let path = url.strip_prefix(&format!("http://{}", server.at)).unwrap();
    assert_eq!(server.get(path, "").status, 303);
    assert_eq!(server.get(path, "").status, 401);
    assert_eq!(server.get("/login/AAAA", "").status, 401);

    password::set(&server.password_file(), UiRole::Admin, "correct horse").unwrap();
    let own = server.origin();
    let answer = server.post("/login", &own, "role=admin&password=correct+horse");
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert!(server.get("/", &cookie).body.contains("Log out"));
    std::thread::sleep(Duration::from_millis(20));
    password::set(&server.password_file(), UiRole::Reader, "another one").unwrap();
    assert!(!server.get("/", &cookie).body.contains("Log out"));
    // Another page can't log somebody in either.
    assert_eq!(server.post("/login", "Origin: http://evil.example\r\n", "password=x").status, 403);
}

#[test]
fn a_flood_of_logins_is_let_through_in_drops() {
    let server = Server::start();
    password::set(&server.password_file(), UiRole::Admin, "correct horse").unwrap();
    let own = server.origin();
    let attempt = |n| server.post("/login", &own, &format!("role=admin&password=guess{n}")).status;
    let statuses: Vec<u16> = (0..60).map(attempt).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 5, "{statuses:?}");
    assert!(statuses[5..].iter().all(|status| *status == 429), "{statuses:?}");
    // Whoever may open the socket's file still gets in.
    assert!(server.log_in(UiRole::Admin).0.starts_with("Cookie: braid-"));
}

#[test]
fn nothing_but_our_own_files_has_an_address() {
    let server = Server::start();
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/style.css/../../../etc/passwd",
        "/links/..%2f..%2fetc%2fpasswd",
        "/links/%00",
        "//etc/passwd",
        "/links/%ff%fe",
        "/.git/config",
        "/login/../../etc/passwd",
        "/links/<script>",
        &format!("/links/{}", "x".repeat(3000)),
    ] {
        let answer = server.get(path, "");
        assert!(matches!(answer.status, 400..=404), "{path}: {answer:?}");
        assert!(!answer.body.contains("root:"), "{answer:?}");
    }
}

#[test]
fn text_of_others_is_text_and_no_script_runs_but_ours() {
    let server = Server::start();
    let (cookie, _) = server.log_in(UiRole::Reader);
    for path in [
        "/",
        "/links",
        "/links/dsl",
        "/links/dsl/change?tier=%3Cscript%3E",
        "/links/dsl?span=%3Cscript%3E",
        "/doctor",
        "/traffic",
        "/traffic/x",
        "/login",
    ] {
        let answer = server.get(path, &cookie);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.contains("<script>") && !answer.body.contains("onerror="), "{path}");
        assert!(!answer.body.contains("style=\""), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
    }
}

#[test]
fn headers_and_bodies_have_a_bound() {
    let server = Server::start();
    let long = server.get("/", &format!("X-Long: {}\r\n", "x".repeat(64 * 1024)));
    assert!(matches!(long.status, 0 | 400..=431), "{long:?}");
    let many: String = (0..5000).map(|n| format!("X-{n}: 1\r\n")).collect();
    assert!(matches!(server.get("/", &many).status, 0 | 400..=431));
    let address = server.get(&format!("/{}", "a".repeat(64 * 1024)), "");
    assert!(matches!(address.status, 0 | 400..=431), "{address:?}");
    let form = format!("password={}", "x".repeat(1 << 20));
    let answer = server.post("/login", &server.origin(), &form);
    assert!(matches!(answer.status, 0 | 413), "{}", answer.status);
    // It announces a large body, and never ends it.
    let chunked = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/x-www-form-urlencoded\r\n\
         Transfer-Encoding: chunked\r\n\r\n{}",
        server.at,
        server.origin(),
        format!("1000\r\n{}\r\n", "y".repeat(4096)).repeat(100)
    );
    let answer = Answer::parse(&server.raw(chunked.as_bytes()));
    assert!(matches!(answer.status, 0 | 413), "{}", answer.status);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let text = server.raw(garbage);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert_eq!(server.get("/", "").status, 200);
}

/// Far more connections than allowed, none of which ever finishes its headers.
#[test]
fn who_sends_slowly_is_cut_off_and_others_are_served() {
    let server = Server::start();
    let slow: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nX-Slow: ").unwrap();
            stream
        })
        .collect();
    // Root's socket has its own limits.
    let mut unix = UnixStream::connect(server.folder.path().join("socket")).unwrap();
    unix.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_all(&mut unix).starts_with("HTTP/1.1 200"));
    // At once: most of those admitted first still have time left.
    assert_eq!(server.get("/", "").status, 200);
    let mut one = &slow[200];
    one.set_nonblocking(true).unwrap();
    let waits = one.read(&mut [0]).unwrap_err();
    assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock, "it wasn't cut off by its time");
    one.set_nonblocking(false).unwrap();
    for mut stream in slow {
        let answer = read_all(&mut stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    // A body that arrives drop by drop.
    let mut stream = server.connect();
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 1000\r\n\r\npass",
        server.at,
        server.origin()
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 408"));
}

#[test]
fn the_socket_is_an_admins_and_only_its_own_forms_count() {
    let server = Server::start();
    let ask = |request: &str| {
        let mut unix = UnixStream::connect(server.folder.path().join("socket")).unwrap();
        unix.write_all(request.as_bytes()).unwrap();
        Answer::parse(&read_all(&mut unix))
    };
    let page = ask(
        "GET /links/lte/change?tier=7 HTTP/1.1\r\nHost: localhost:5190\r\nConnection: close\r\n\r\n",
    );
    let form = page.body.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(page.header("set-cookie"), None);
    let send = |form: &str| {
        let body = format!("form={form}&tier=7");
        ask(&format!(
            "POST /links/lte HTTP/1.1\r\nHost: localhost:5190\r\nOrigin: http://localhost:5190\r\n\
             Connection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .status
    };
    let of_a_session = server.log_in(UiRole::Admin).1;
    assert_eq!((send("x"), send(&of_a_session), server.told()), (403, 403, 0));
    assert_eq!(send(form), 303);
    let told = server.fake.told.lock().unwrap();
    let expected = LinkChange { tier: Some(7), ..LinkChange::default() };
    assert_eq!(told[0], ("lte".to_owned(), expected));
}

#[test]
fn what_is_live_comes_each_second_and_ends_with_the_session() {
    let server = Server::start();
    let (cookie, form) = server.log_in(UiRole::Reader);
    let mut stream = server.connect();
    let request = format!("GET /live?span=live HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n", server.at);
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    let mut part = [0; 4096];
    while text.matches("data: {").count() < 2 {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    assert!(text.contains("text/event-stream") && !text.contains("<script>"), "{text}");
    let own = server.origin();
    assert_eq!(
        server.post("/logout", &format!("{cookie}{own}"), &format!("form={form}")).status,
        303
    );
    // The server closes the connection.
    read_all(&mut stream);
}

#[test]
fn too_many_open_pages_are_told_so() {
    let server = Server::start();
    let open = || {
        let mut stream = server.connect();
        let request = format!("GET /live HTTP/1.1\r\nHost: {}\r\n\r\n", server.at);
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, String::from_utf8_lossy(&head).into_owned())
    };
    let pages: Vec<_> = (0..101).map(|_| open()).collect();
    assert!(pages[..100].iter().all(|(_, head)| head == "HTTP/1.1 200"));
    assert_eq!(pages[100].1, "HTTP/1.1 503");
    assert_eq!(server.get("/", "").status, 200);
}

#[test]
fn the_first_view_is_small() {
    let server = Server::start();
    let page = server.get("/", "");
    let mut bytes = page.head.len() + page.body.len();
    for part in page.body.split('"').filter(|part| {
        part.starts_with("/style.css")
            || part.starts_with("/page.js")
            || part.starts_with("/favicon.svg")
    }) {
        let answer = server.get(part, "");
        assert_eq!(answer.status, 200, "{part}");
        bytes += answer.head.len() + answer.body.len();
    }
    println!("{bytes} bytes");
    assert!(bytes < 150_000, "{bytes}");
}
