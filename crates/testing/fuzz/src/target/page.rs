use braid_control::config::LinkChange;
use braid_control::request::Refusal;
use braid_control::status::{LinkStatus, PathState, PathStatus, PeerStatus, Status};
use braid_history::Recorder;
use braid_page::server::serve_connection;
use braid_page::{Client, LinkWish, Page, PoolsLook, Settings, Shown};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Everything that a client sends on a connection to the page; the first byte says from where. The
/// answers are valid HTTP, names stay text, and nobody changes anything without knowing the forms'
/// token.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn page(data: &[u8]) {
    static SERVED: OnceLock<(Runtime, Arc<Tunnel>, Arc<Page>)> = OnceLock::new();
    let Some((from, sent)) = data.split_first() else { return };
    let (runtime, tunnel, page) = SERVED.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let tunnel = Arc::new(Tunnel::default());
        let settings = Settings {
            name: "braid0".into(),
            hosts: vec!["router.lan".into()],
            password_file: "/nonexistent/password".into(),
            at: None,
            tls: false,
            fingerprint: None,
            login_command: "braid ui login".into(),
        };
        (runtime.expect("a timer"), tunnel.clone(), Page::new(tunnel, settings))
    });
    let client = match from % 3 {
        0 => Client::Unix,
        1 => Client::Tcp(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => Client::Tcp(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    };
    let answer = runtime.block_on(exchange(page.clone(), client, sent));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{:?}", text(&answer));
    assert!(!text(&answer).contains(HOSTILE), "{:?}", text(&answer));
    assert!(!tunnel.changed.load(Ordering::Relaxed), "a stranger's form changed something");
}

/// The answers until the server is done with this client, or waits for more.
async fn exchange(page: Arc<Page>, client: Client, sent: &[u8]) -> Vec<u8> {
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let ask = async {
        let (mut answer, mut part) = (Vec::new(), [0; 4096]);
        // In memory, these only fail if the other end has closed.
        let _ = ours.write_all(sent).await;
        let _ = ours.shutdown().await;
        while let Ok(Ok(length @ 1..)) = timeout(QUIET, ours.read(&mut part)).await {
            answer.extend_from_slice(&part[..length]);
        }
        drop(ours);
        answer
    };
    let (_, answer) = tokio::join!(timeout(QUIET * 2, serve_connection(page, theirs, client)), ask);
    answer
}

/// Far longer than an answer takes; live updates never end.
const QUIET: Duration = Duration::from_millis(500);

/// A link name that an attacker would choose, if names could contain that.
const HOSTILE: &str = "<script>alert(1)</script>";

#[derive(Default)]
struct Tunnel {
    changed: AtomicBool,
}

impl Shown for Tunnel {
    fn status(&self) -> Option<Status> {
        let link = |name: &str| LinkStatus {
            name: name.into(),
            interface: Some(HOSTILE.into()),
            present: true,
            trouble: Some(HOSTILE.into()),
            ..LinkStatus::default()
        };
        let path =
            || PathStatus { link: "dsl".into(), state: PathState::Active, ..PathStatus::default() };
        let peer = PeerStatus {
            name: HOSTILE.into(),
            connected: true,
            paths: vec![path()],
            ..PeerStatus::default()
        };
        Some(Status {
            interface: "braid0".into(),
            links: vec![link("dsl"), link("lte")],
            warnings: vec![HOSTILE.into()],
            peers: vec![peer],
            ..Status::default()
        })
    }

    fn history(&self) -> Option<&Recorder> {
        None
    }

    fn pools(&self) -> Option<PoolsLook> {
        None
    }

    fn link(&self, name: &str) -> Option<LinkWish> {
        ["dsl", "lte"].contains(&name).then(LinkWish::default)
    }

    fn set_link(&self, _: &str, _: LinkChange) -> Result<(), Refusal> {
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
