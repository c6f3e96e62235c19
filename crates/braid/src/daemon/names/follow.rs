//! Probes the name servers periodically, on a thread of its own, since that takes time.

use super::super::ending::Ending;
use super::super::supervise;
use super::choice::{Choice, Role, Situation};
use super::{Asked, Server, look_up};
use braid_linux::resolv_conf::name_servers;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval while nothing is known to have changed.
const EVERY: Duration = Duration::from_secs(10);
/// Interval while something is wrong, or has just changed.
const EVERY_SOON: Duration = Duration::from_secs(3);
/// Maximum servers; more than any host has.
const MOST: usize = 24;

/// Tracks which name servers answer.
pub struct NameServers {
    news: Sender<Situation>,
    choice: Arc<Mutex<Choice>>,
}

impl NameServers {
    /// Starts; `link_mark` is the mark of packets that leave by a link. Ends when dropped.
    pub fn start(ending: &Ending, link_mark: u32) -> io::Result<NameServers> {
        let (news, received) = channel();
        let choice = Arc::new(Mutex::new(Choice::default()));
        let mut following = Following { received, link_mark, told: choice.clone() };
        supervise::start("braid-names", ending, move || following.run())?;
        Ok(NameServers { news, choice })
    }

    /// Probes again at once.
    pub fn set(&self, situation: Situation) {
        // The thread lives as long as the sender.
        let _ = self.news.send(situation);
    }

    /// The current decision.
    pub fn choice(&self) -> Choice {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Following {
    received: Receiver<Situation>,
    link_mark: u32,
    told: Arc<Mutex<Choice>>,
}

impl Following {
    fn run(&mut self) {
        let (mut situation, mut wait) = (Situation::default(), EVERY);
        loop {
            match self.received.recv_timeout(wait) {
                Ok(newer) => situation = self.received.try_iter().last().unwrap_or(newer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let choice = self.look(&situation);
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            wait = if choice == *told && choice.silent.is_empty() { EVERY } else { EVERY_SOON };
            *told = choice;
        }
    }

    fn look(&self, situation: &Situation) -> Choice {
        let hosts = name_servers();
        if situation.role == Role::Concentrator && answers_itself(situation) {
            return Choice::default();
        }
        let mut candidates = situation.candidates(&hosts);
        candidates.truncate(MOST);
        let servers: Vec<Server> =
            candidates.iter().map(|it| it.server(situation, self.link_mark)).collect();
        // Asks for the root's name servers, which any resolver knows.
        let said = look_up("", &servers);
        situation.choose(&hosts, &candidates.into_iter().zip(said).collect::<Vec<_>>())
    }
}

/// Whether this host already runs a name server for the tunnel.
fn answers_itself(situation: &Situation) -> bool {
    let own: Vec<IpAddr> = situation.inside.iter().map(|net| net.addr()).collect();
    let server = |address: &IpAddr| Server { address: *address, device: None, mark: None };
    let said = look_up("", &own.iter().map(server).collect::<Vec<_>>());
    said.iter().any(|said| matches!(said, Asked::Answered(_)))
}
