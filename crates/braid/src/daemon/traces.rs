//! What a daemon leaves on the host when it crashes, and how it is undone.

use super::DaemonError;
use super::host_numbers;
use braid_control::config::{AnyConfig, Config, GroupConfig};
use braid_engines::Operation;
use braid_linux::journal::{Damaged, Failure, UndoJournal};
use braid_linux::routing::Leftovers;
use std::path::{Path, PathBuf};

/// Where changes are recorded, and how to recognise them without the record.
pub struct Traces {
    /// The journal's files, the preferred first.
    journal: Vec<PathBuf>,
    /// A tunnel's leftovers, which have marks; those of kernel engines have none.
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

    /// Whether there is something to undo, if no daemon runs.
    pub fn exist(&self) -> bool {
        let marked = || self.marked.as_ref().is_some_and(|marked| marked.exist().unwrap_or(false));
        UndoJournal::holds_something(&self.journal) || marked()
    }

    /// Undoes by the journal, then by the marks, as a crash may have come while the journal
    /// couldn't be written. Returns the journal, with only what could not be undone; if the journal
    /// was damaged, [`Traces::untold`] says what has no marks.
    pub fn take_back(&self) -> Result<(UndoJournal, Vec<Failure>), DaemonError> {
        let mut journal = self.open()?;
        let mut failures = journal.undo();
        if let Some(marked) = &self.marked {
            let removed = marked.remove();
            failures
                .extend(removed.map_err(DaemonError::system("finding what a crash left behind"))?);
        }
        Ok((journal, failures))
    }

    /// Like [`Traces::clean`], but sets `kill_switch` first and keeps it, whether a crash left it
    /// or not. An error if that fails.
    pub fn clean_but(&self, kill_switch: &Operation) -> Result<UndoJournal, DaemonError> {
        let mut journal = self.open()?;
        self.warn_of_damage(&journal);
        let mut failures = journal.reconcile(std::slice::from_ref(kill_switch));
        if let Some(at) = failures.iter().position(|failure| failure.operation == *kill_switch) {
            let doing = "turning on the kill switch";
            return Err(DaemonError::system(doing)(failures.swap_remove(at).error));
        }
        if let Some(marked) = &self.marked {
            let removed = marked.remove_routing();
            failures
                .extend(removed.map_err(DaemonError::system("finding what a crash left behind"))?);
        }
        for failure in failures {
            tracing::warn!("cleaning up after a crash: {failure}");
        }
        Ok(journal)
    }

    /// Undoes nothing: this program takes over what the previous one has set.
    pub fn adopt(&self) -> Result<UndoJournal, DaemonError> {
        let journal = self.open()?;
        self.warn_of_damage(&journal);
        Ok(journal)
    }

    /// Like [`Traces::take_back`] at a start, which leftovers don't prevent.
    pub fn clean(&self) -> Result<UndoJournal, DaemonError> {
        let (journal, failures) = self.take_back()?;
        self.warn_of_damage(&journal);
        for failure in failures {
            tracing::warn!("cleaning up after a crash: {failure}");
        }
        Ok(journal)
    }

    /// What to check by hand, because the journal that recorded it was damaged.
    pub fn untold(&self, journal: &UndoJournal) -> Option<String> {
        let Damaged { kept, why } = journal.damaged()?;
        let look = match self.marked {
            Some(_) => {
                "rules, routes and firewall were removed by their marks. Kernel settings have \
                 none: check `sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding` (both are 0 \
                 if nothing else forwards), `sysctl -a -r 'rp_filter|proxy_arp|accept_ra$'`, and \
                 with Docker `iptables -S DOCKER-USER`"
            }
            None => {
                "what an engine of the kernel sets has no marks: check `ip link`, `ip rule`, `ip \
                 route show table all` and `ip nexthop`"
            }
        };
        Some(format!(
            "the journal of what was set on the host is damaged ({why}), so what was there before \
             isn't known; {look}. What is left of it is kept in {}: `prior` is what was before",
            kept.display()
        ))
    }

    /// Logs the damage, when the daemon continues anyway.
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

/// First beside the control socket: settings don't outlive that folder, which isn't on a disk that
/// can be full, worn out or slow. It is named like the socket there, since tunnels in several
/// network namespaces may have the same name and share the folder.
fn journal_places(name: &str, control: &Path, state_dir: &Path) -> Vec<PathBuf> {
    let mut places = vec![control.with_extension("journal.json")];
    let in_state = state_dir.join(format!("{name}.journal.json"));
    if !places.contains(&in_state) {
        places.push(in_state);
    }
    places
}
