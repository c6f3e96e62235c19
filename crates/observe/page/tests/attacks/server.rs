use crate::homes::FakeHomes;
use crate::reports::FakeReports;
use braid_control::config::LinkChange;
use braid_control::finding::Finding;
use braid_control::measured::NewMeasure;
use braid_control::request::{Refusal, UiRole};
use braid_control::status::{
    AlertStatus, LinkStatus, PathState, PathStatus, PeerStatus, RuleDoes, RuleStatus, Status,
};
use braid_control::traffic::{DeviceTraffic, FlowTraffic, TrafficStatus};
use braid_history::{Recorder, Severity};
use braid_page::homes::Homes;
use braid_page::reports::Reports;
use braid_page::server::{Listeners, serve};
use braid_page::{Examined, LinkWish, Page, PoolsLook, Settings, Shown};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A tunnel that only records requests.
#[derive(Default)]
pub struct Fake {
    pub told: Mutex<Vec<(String, LinkChange)>>,
    pub measured: Mutex<Vec<NewMeasure>>,
    pub homes: FakeHomes,
}

/// A link name that an attacker would choose, if names could contain that.
pub const HOSTILE: &str = "<script>alert(1)</script>\"'&";

impl Shown for Fake {
    fn status(&self) -> Option<Status> {
        let link = |name: &str| LinkStatus {
            name: name.into(),
            interface: Some(HOSTILE.into()),
            present: true,
            trouble: Some(HOSTILE.into()),
            ..LinkStatus::default()
        };
        let path =
            PathStatus { link: "dsl".into(), state: PathState::Active, ..PathStatus::default() };
        let rule = RuleStatus {
            name: HOSTILE.into(),
            line: 7,
            does: RuleDoes::Direct,
            link: Some(HOSTILE.into()),
            counts_now: true,
            connections: 1_234_567,
            packets: 0,
            bytes: 0,
        };
        Some(Status {
            interface: "braid0".into(),
            links: vec![link("dsl"), link("lte")],
            warnings: vec![HOSTILE.into()],
            rules: vec![rule],
            alerts: vec![AlertStatus { to: HOSTILE.into(), ..AlertStatus::default() }],
            peers: vec![PeerStatus {
                name: HOSTILE.into(),
                connected: true,
                paths: vec![path],
                ..PeerStatus::default()
            }],
            ..Status::default()
        })
    }

    fn traffic(&self) -> Option<TrafficStatus> {
        let device = DeviceTraffic { name: HOSTILE.into(), ..DeviceTraffic::default() };
        let flow = FlowTraffic {
            device: HOSTILE.into(),
            local: HOSTILE.into(),
            remote: "203.0.113.7:443".into(),
            rule: Some(HOSTILE.into()),
            ..FlowTraffic::default()
        };
        let (devices, flows) = (vec![device], vec![flow]);
        Some(TrafficStatus { devices, flows, flows_known: 1, ..TrafficStatus::default() })
    }

    fn examined(&self) -> Option<Examined> {
        let finding = Finding {
            code: "lossy".into(),
            severity: Severity::Warning,
            subject: HOSTILE.into(),
            what: HOSTILE.into(),
            evidence: vec![HOSTILE.into()],
            gain: Some(HOSTILE.into()),
            gain_mbps: None,
            mend: HOSTILE.into(),
        };
        Some(Examined { findings: Some(vec![finding]), looked_unix: 0 })
    }

    fn measure(&self, wish: &NewMeasure) -> Result<(), Refusal> {
        self.measured.lock().unwrap().push(wish.clone());
        Ok(())
    }

    fn history(&self) -> Option<&Recorder> {
        None
    }

    fn pools(&self) -> Option<PoolsLook> {
        None
    }

    fn reports(&self) -> Option<&dyn Reports> {
        Some(&FakeReports)
    }

    fn homes(&self) -> Option<&dyn Homes> {
        Some(&self.homes)
    }

    fn link(&self, name: &str) -> Option<LinkWish> {
        ["dsl", "lte"].contains(&name).then(LinkWish::default)
    }

    fn set_link(&self, name: &str, change: LinkChange) -> Result<(), Refusal> {
        self.told.lock().unwrap().push((name.into(), change));
        Ok(())
    }
}

pub struct Server {
    pub at: SocketAddr,
    pub fake: Arc<Fake>,
    pub page: Arc<Page>,
    pub folder: tempfile::TempDir,
    stop: tokio::sync::watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::default());
        let settings = Settings {
            name: "braid0".into(),
            hosts: vec!["router.lan".into()],
            password_file: folder.path().join("password"),
            at: None,
            tls: false,
            login_command: "braid ui login --socket /run/braid/x.ui".into(),
            fingerprint: None,
        };
        let page = Page::new(fake.clone(), settings);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (served, socket) = (page.clone(), folder.path().join("socket"));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let tcp = Some(tokio::net::TcpListener::from_std(listener).unwrap());
                let unix = Some(tokio::net::UnixListener::bind(socket).unwrap());
                ready.send(()).unwrap();
                serve(served, Listeners { tcp, tls: None, unix }, stopped).await;
            });
        });
        is_ready.recv().unwrap();
        Server { at, fake, page, folder, stop, thread: Some(thread) }
    }

    pub fn password_file(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes, returns everything that comes back.
    pub fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(request);
        read_all(&mut stream)
    }

    pub fn get(&self, path: &str, headers: &str) -> Answer {
        let host = format!("Host: {}\r\n", self.at);
        self.ask(&format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n"))
    }

    pub fn post(&self, path: &str, headers: &str, form: &str) -> Answer {
        let length = form.len();
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\
             {headers}\r\n{form}",
            self.at
        ))
    }

    /// The headers of a browser on one of our pages.
    pub fn origin(&self) -> String {
        format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", self.at)
    }

    pub fn ask(&self, request: &str) -> Answer {
        Answer::parse(&self.raw(request.as_bytes()))
    }

    /// Logs in with a link; returns the header that a browser sends from then on, and the token for
    /// its forms.
    pub fn log_in(&self, role: UiRole) -> (String, String) {
        let link = self.page.login_link(role, self.at);
        let path = link.url.strip_prefix(&format!("http://{}", self.at)).unwrap().to_owned();
        let answer = self.get(&path, "");
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let cookie = format!("Cookie: {cookie}\r\n");
        let page = self.get("/links", &cookie).body;
        let form = page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        (cookie, form.to_owned())
    }

    pub fn told(&self) -> usize {
        self.fake.told.lock().unwrap().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.into(), body: body.into() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub fn read_all(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
