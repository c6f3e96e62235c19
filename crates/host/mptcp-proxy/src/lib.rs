//! Multipath TCP (RFC 8684) for programs that know nothing of it: a proxy at each
//! end of the links.
//!
//! At home nftables redirects TCP connections here ([`Rules`]), and each continues over the
//! kernel's MPTCP to the proxy at the other end, which is told the destination and connects there
//! by plain TCP. So neither client nor server is changed. If there is no proxy at the other end,
//! the connection goes to the server itself, by MPTCP if it speaks that and otherwise by TCP.
//!
//! Without the far proxy's help this isn't possible: a connection that is only redirected there
//! loses its subflows, since the kernel accepts them only on the connection's own port.
//!
//! The kernel's path manager must know the links; `braid-engines` sets that up.

mod connection;
pub mod header;
mod relay;
mod rules;

pub use rules::Rules;

use connection::{listen_at_home, listen_at_server, onward_from_home, onward_from_links};
use ipnet::IpNet;
use socket2::Socket;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The stack of a relay's thread, which has its buffer on the heap.
const STACK: usize = 128 << 10;
/// More connections than this at a time wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 4096;
/// How long a listener that can't accept (too many open files) waits.
const RETRY: Duration = Duration::from_millis(50);

/// The proxy at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Where the other end's proxy is; `None`: at the address that the client
    /// wants, on the server itself.
    pub far_end: Option<IpAddr>,
    /// Its port.
    pub far_port: u16,
    /// Mark of the proxy's own packets, which [`Rules`] let pass.
    pub mark: u32,
}

/// Whom the proxy at the other end serves, as it would otherwise be an open relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Addresses of homes; connections from others are refused.
    pub homes: Vec<IpNet>,
    /// Where they may go.
    pub servers: Vec<IpNet>,
}

/// What a proxy does with its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Where connections are opened.
    Home(Home),
    /// The servers' end, or the way to them.
    Far(Access),
}

/// A proxy that listens.
#[derive(Debug)]
pub struct Proxy {
    end: Arc<End>,
    listeners: Vec<Socket>,
}

impl Proxy {
    /// Listens on `port`, IPv4 and IPv6.
    ///
    /// # Errors
    /// The port is taken, or the kernel has no MPTCP.
    pub fn listen(end: End, port: u16) -> io::Result<Self> {
        let listeners = match &end {
            End::Home(_) => listen_at_home(port)?,
            End::Far(_) => listen_at_server(port)?,
        };
        Ok(Proxy { end: Arc::new(end), listeners })
    }

    /// Functions that serve connections, each in its own threads: one per listener. They never
    /// return, and may be called again after a panic.
    pub fn servers(self) -> Vec<impl FnMut() + Send + 'static> {
        let Proxy { end, listeners } = self;
        let open = Open::default();
        let server = |listener| {
            let (end, open) = (Arc::clone(&end), open.clone());
            move || serve(&end, &listener, &open)
        };
        listeners.into_iter().map(server).collect()
    }

    /// Serves connections with all of them; never returns.
    pub fn serve(self) {
        thread::scope(|scope| {
            self.servers().into_iter().for_each(|serve| drop(scope.spawn(serve)))
        });
    }
}

/// How many connections are open.
#[derive(Clone, Default)]
struct Open(Arc<AtomicUsize>);

/// Counts one until dropped, including by a panic.
struct Counted(Open);

impl Open {
    fn one_more(&self) -> Option<Counted> {
        let opened = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < MOST_CONNECTIONS).then_some(open + 1)
        });
        opened.is_ok().then(|| Counted(self.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(end: &Arc<End>, listener: &Socket, open: &Open) {
    loop {
        let Some(counted) = open.one_more() else {
            thread::sleep(RETRY);
            continue;
        };
        let Ok((client, _)) = listener.accept() else {
            thread::sleep(RETRY);
            continue;
        };
        let end = Arc::clone(end);
        let started = thread::Builder::new().stack_size(STACK).spawn(move || {
            let _counted = counted;
            if pass_on(&end, &client).is_err() {
                // Its client must see that this is not an orderly end.
                relay::abort(&client);
            }
        });
        if started.is_err() {
            thread::sleep(RETRY);
        }
    }
}

/// Connects to where a client was going, and relays until both are done.
fn pass_on(end: &End, client: &Socket) -> io::Result<()> {
    client.set_tcp_nodelay(true)?;
    let server = match end {
        End::Home(home) => onward_from_home(client, home)?,
        End::Far(access) => onward_from_links(client, access)?,
    };
    relay::both_ways(client, &server).inspect_err(|_| relay::abort(&server))
}
