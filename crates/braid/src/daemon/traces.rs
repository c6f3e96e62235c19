//! What a daemon leaves on the host when it crashes, and how it is taken back.

use super::DaemonError;
use super::host_numbers;
use braid_control::config::{AnyConfig, Config, GroupConfig};
use braid_engines::Operation;
use braid_linux::journal::{Damaged, Failure, UndoJournal};
use braid_linux::routing::Leftovers;
use std::path::{Path, PathBuf};

/// Where what was set is written down, and what tells it without that.
pub struct Traces {
    /// The journal's files, the preferred first.
    journal: Vec<PathBuf>,
    /// A tunnel's, which have marks; an engine of the kernel leaves none.
    marked: Option<Leftovers>,
}

impl Traces {
    /// Of a tunnel or group.
    pub fn of(config: &AnyConfig) -> Traces {
        match config {
            AnyConfig::Tunnel(config) => Traces::of_tunnel(config),
            AnyConfig::Group(config) => Traces::of_group(config),
        }
    }

    /// Of a tunnel.
    pub fn of_tunnel(config: &Config) -> Traces {
        let interface = &config.interface;
        let name = interface.name.as_str();
        Traces {
            journal: journal_places(name, &interface.control, &interface.state_dir),
            marked: Some(host_numbers::leftovers(name)),
        }
    }

    /// Of a group.
    pub fn of_group(config: &GroupConfig) -> Traces {
        let name = config.group.name.as_str();
        Traces { journal: journal_places(name, &config.control, &config.state_dir), marked: None }
    }

    /// Whether there is something to take back, when no daemon runs.
    pub fn exist(&self) -> bool {
        let marked = || self.marked.as_ref().is_some_and(|marked| marked.exist().unwrap_or(false));
        UndoJournal::holds_something(&self.journal) || marked()
    }

    /// By the journal, then by the marks: a crash may have come while the journal
    /// couldn't be written. Gives the journal, empty but for what could not be
    /// taken back; [`Traces::untold`] says what no mark tells where the journal was damaged.
    pub fn take_back(&self) -> Result<(UndoJournal, Vec<Failure>), DaemonError> {
        let mut journal = self.open()?;
        let mut failures = journal.undo();
        if let Some(marked) = &self.marked {
            let removed = marked.remove();
            failures.extend(removed.map_err(DaemonError::system("seeing what a crash left"))?);
        }
        Ok((journal, failures))
    }

    /// As [`Traces::clean`], but `kill_switch` is in force before and stays so,
    /// whether a crash left it or not. An error when that can't be.
    pub fn clean_but(&self, kill_switch: &Operation) -> Result<UndoJournal, DaemonError> {
        let mut journal = self.open()?;
        self.warn_of_damage(&journal);
        let mut failures = journal.reconcile(std::slice::from_ref(kill_switch));
        if let Some(at) = failures.iter().position(|failure| failure.operation == *kill_switch) {
            let doing = "putting the kill switch in force";
            return Err(DaemonError::system(doing)(failures.swap_remove(at).error));
        }
        if let Some(marked) = &self.marked {
            let removed = marked.remove_routing();
            failures.extend(removed.map_err(DaemonError::system("seeing what a crash left"))?);
        }
        for failure in failures {
            tracing::warn!("taking back what a crash left: {failure}");
        }
        Ok(journal)
    }

    /// Takes nothing back: this program goes on with what the one before has set.
    pub fn adopt(&self) -> Result<UndoJournal, DaemonError> {
        let journal = self.open()?;
        self.warn_of_damage(&journal);
        Ok(journal)
    }

    /// As [`Traces::take_back`] at a start, which what is left doesn't stop.
    pub fn clean(&self) -> Result<UndoJournal, DaemonError> {
        let (journal, failures) = self.take_back()?;
        self.warn_of_damage(&journal);
        for failure in failures {
            tracing::warn!("taking back what a crash left: {failure}");
        }
        Ok(journal)
    }

    /// What is to be looked at by hand, since the journal that told it was damaged.
    pub fn untold(&self, journal: &UndoJournal) -> Option<String> {
        let Damaged { kept, why } = journal.damaged()?;
        let look = match self.marked {
            Some(_) => {
                "rules, routes and firewall were taken back by their marks. Kernel settings have \
                 none: look at `sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding` (both are \
                 0 where nobody else forwards), `sysctl -a -r 'rp_filter|proxy_arp|accept_ra$'`, \
                 and with Docker `iptables -S DOCKER-USER`"
            }
            None => {
                "what an engine of the kernel sets has no marks: look at `ip link`, `ip rule`, `ip \
                 route show table all` and `ip nexthop`"
            }
        };
        Some(format!(
            "the journal of what was set on the host is damaged ({why}), so what was there before \
             isn't known; {look}. What is left of it is kept in {}: `prior` is what was before",
            kept.display()
        ))
    }

    /// In the log, where what it was has to go on.
    pub fn warn_of_damage(&self, journal: &UndoJournal) {
        if let Some(untold) = self.untold(journal) {
            tracing::warn!("{untold}");
        }
    }

    fn open(&self) -> Result<UndoJournal, DaemonError> {
        UndoJournal::open(&self.journal)
            .map_err(DaemonError::system("the journal of what was set on the host"))
    }
}

/// Beside the control socket first: what is set lasts no longer than that folder,
/// which is no disk that can be full, worn out or slow. Named as the socket there,
/// since tunnels of several network namespaces may have one name and share the folder.
fn journal_places(name: &str, control: &Path, state_dir: &Path) -> Vec<PathBuf> {
    let mut places = vec![control.with_extension("journal.json")];
    let in_state = state_dir.join(format!("{name}.journal.json"));
    if !places.contains(&in_state) {
        places.push(in_state);
    }
    places
}
