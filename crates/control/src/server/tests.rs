use super::*;
use crate::client::{Client, ClientError};
use crate::config::{Layer, Mode};
use crate::request::ErrorBody;
use crate::status::{DeviceDrops, DnsStatus, LinkStatus, PathStatus, PeerStatus, QuotaStatus};
use std::sync::Mutex;

/// A tunnel that only records requests.
#[derive(Default)]
struct Fake {
    asked: Mutex<Vec<Request>>,
}

impl Controlled for Fake {
    fn status(&self) -> Status {
        Status {
            rules: Vec::new(),
            split_tcp: None,
            alerts: Vec::new(),
            version: "1".into(),
            interface: "braid0".into(),
            pid: 7,
            layer: Layer::L3,
            mode: Mode::Adaptive,
            mtu: 1500,
            drops: DeviceDrops { not_fetched: 3, ..DeviceDrops::default() },
            uptime_s: 2.5,
            draining: false,
            fleet: None,
            listen: Vec::new(),
            links: vec![LinkStatus {
                name: "dsl".into(),
                interface: Some("eth1".into()),
                present: true,
                trouble: None,
                portal: None,
                tier: 0,
                metered: false,
                standby: false,
                quota: Some(QuotaStatus {
                    limit_bytes: 100,
                    used_bytes: 40,
                    period_start_unix: None,
                    period_end_unix: None,
                }),
            }],
            dns: DnsStatus::default(),
            traffic: None,
            warnings: Vec::new(),
            troubles: Vec::new(),
            peers: vec![PeerStatus {
                name: "c\"\n".into(),
                connected: true,
                rx_bytes: 11,
                paths: vec![
                    PathStatus { link: "dsl".into(), tx_bytes: 5, ..PathStatus::default() },
                    PathStatus { link: "dsl".into(), tx_bytes: 6, ..PathStatus::default() },
                ],
                ..PeerStatus::default()
            }],
        }
    }

    fn execute(&self, request: Request) -> Result<(), Refusal> {
        self.asked.lock().unwrap().push(request.clone());
        match request {
            Request::RemoveLink { name } if name == "none/such" => {
                Err(Refusal::NotFound(format!("no link {name:?}")))
            }
            Request::AddLink(link) if link.name == "bad" => {
                Err(Refusal::Invalid("bad link".into()))
            }
            Request::SetMode(Mode::Broadcast) => Err(Refusal::Failed("broken".into())),
            _ => Ok(()),
        }
    }
}

/// Runs `test` (blocking) against a server of its own.
fn with_server(test: impl FnOnce(&Client, &Path, &Fake) + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("run/braid0.sock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fake = Arc::new(Fake::default());
        let listener = bind(&socket).await.unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (path, controlled) = (socket.clone(), fake.clone());
        let served = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            serve(listener, controlled, Path::new("/etc/braid/one.toml"), stop).await
        });
        let done =
            tokio::task::spawn_blocking(move || test(&Client::new(&path), &path, &fake)).await;
        done.unwrap();
        stop.send(()).unwrap();
        served.await.unwrap().unwrap();
    });
}

#[test]
fn status_and_metrics_are_told() {
    with_server(|client, socket, fake| {
        assert_eq!(client.status().unwrap(), fake.status());
        let mode = std::fs::metadata(socket).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o660);
        let metrics = client.metrics().unwrap();
        for line in [
            "braid_up{interface=\"braid0\",mode=\"adaptive\"} 1",
            "braid_uptime_seconds 2.5",
            "braid_device_drops_total{reason=\"not_fetched\"} 3",
            "braid_link_quota_used_bytes{link=\"dsl\"} 40",
            "braid_peer_bytes_total{peer=\"c\\\"\\n\",direction=\"rx\"} 11",
            "braid_path_bytes_total{peer=\"c\\\"\\n\",link=\"dsl\",direction=\"tx\"} 11",
            "# TYPE braid_path_active gauge",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
        }
    });
}

#[test]
fn what_is_meant_for_another_config_is_refused() {
    with_server(|client, _, fake| {
        let of = |file: &str| client.clone().for_config(Path::new(file));
        of("/etc/braid/one.toml").down().unwrap();
        let another = of("/etc/braid/two.toml");
        for refused in [another.down(), another.reload(), another.status().map(drop)] {
            let Err(ClientError::Anothers { theirs, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(theirs, "/etc/braid/one.toml");
        }
        assert_eq!(*fake.asked.lock().unwrap(), [Request::Down]);
    });
}

#[test]
fn requests_reach_the_tunnel_and_refusals_come_back() {
    with_server(|client, _, fake| {
        let link = NewLink {
            name: "lte".into(),
            link: LinkChange { interface: Some("wwan0".into()), ..LinkChange::default() },
        };
        client.add_link(&link).unwrap();
        let change = LinkChange { tier: Some(1), ..LinkChange::default() };
        client.set_link("lte", &change).unwrap();
        client.set_mode(Mode::BalanceRr).unwrap();
        client.reload().unwrap();
        client.down().unwrap();
        assert_eq!(
            *fake.asked.lock().unwrap(),
            [
                Request::AddLink(link),
                Request::SetLink { name: "lte".into(), change },
                Request::SetMode(Mode::BalanceRr),
                Request::Reload,
                Request::Down,
            ]
        );
        let error = client.remove_link("none/such").unwrap_err();
        assert!(matches!(&error, ClientError::Refused { not_found: true, .. }), "{error}");
        assert_eq!(error.to_string(), "no link \"none/such\"");
        let bad = NewLink { name: "bad".into(), ..NewLink::default() };
        assert_eq!(client.add_link(&bad).unwrap_err().to_string(), "bad link");
        assert_eq!(client.set_mode(Mode::Broadcast).unwrap_err().to_string(), "broken");
    });
}

#[test]
fn wrong_requests_are_refused_in_json() {
    with_server(|_, socket, fake| {
        use std::io::{Read, Write};
        for (head, body, status, says) in [
            ("PUT /v1/mode", "{\"mode\":\"fast\"}", "422", "fast"),
            ("PUT /v1/mode", "{", "400", "JSON"),
            ("POST /v1/links", "{\"name\":\"x\",\"speed\":1}", "422", "speed"),
            ("GET /v1/nothing", "", "404", "no such resource"),
        ] {
            let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
            let length = body.len();
            write!(stream, "{head} HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
            let (_, json) = answer.split_once("\r\n\r\n").unwrap();
            let error: ErrorBody = serde_json::from_str(json).unwrap();
            assert!(error.error.contains(says), "{answer}");
        }
        assert!(fake.asked.lock().unwrap().is_empty());
    });
}

#[test]
fn a_socket_in_use_is_kept_and_a_stale_one_replaced() {
    with_server(|_, socket, _| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(bind(socket)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let stale = socket.with_extension("stale");
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        assert!(matches!(Client::new(&stale).status(), Err(ClientError::NotRunning(_))));
        runtime.block_on(bind(&stale)).unwrap();
        let file = socket.with_extension("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(runtime.block_on(bind(&file)).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    });
}

#[test]
fn a_directory_of_sockets_is_nobody_elses_to_write() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("run/braid");
    let mode = || std::fs::metadata(&directory).unwrap().mode() & 0o7777;
    make_safe_directory(&directory).unwrap();
    assert_eq!(mode(), 0o755);
    for (found, left) in [(0o777, 0o755), (0o700, 0o700), (0o775, 0o775), (0o1777, 0o1777)] {
        std::fs::set_permissions(&directory, Permissions::from_mode(found)).unwrap();
        make_safe_directory(&directory).unwrap();
        assert_eq!(mode(), left, "{found:o}");
    }
}
