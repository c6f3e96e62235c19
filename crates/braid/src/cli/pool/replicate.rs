use super::bytes_line::BytesLine;
use super::carry_out;
use super::reach::{Reach, absolute};
use super::told;
use super::watch_memory::DEFAULT as DEFAULT_WATCH;
use crate::cli::failure::{Failure, FailureKind, print_line, tell};
use crate::cli::{Global, JsonFlag};
use crate::cli::{progress_wanted, terminal_line};
use braid_pool::upkeep::rate_limit;
use braid_replica::agent::Allowed;
use braid_replica::exact_path::ExactPath;
use braid_replica::listener;
use braid_replica::register::{Begun, Order, Register};
use braid_replica::replicate::{Outcome, Place, Replication};
use braid_replica::sink;
use braid_replica::source::{self, Happening, SendOptions, Sent, Watch};
use braid_replica::wire::Selection;
use braid_units::{ByteSize, Rate, format_duration};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{emulate_default_handler, pipe};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool replicate /data/.snapshots nas:/backup/data
  braid pool replicate --newest --limit 20Mbit /data/.snapshots ssh://me@nas:2222/backup
  braid pool replicate nas:/backup/data /restored  # pull
  braid pool replicate --serve 10.9.0.1:7000 --into /backup
  braid pool replicate /data/.snapshots tcp://10.9.0.1:7000/data
  braid pool replicate --serve 10.9.0.1:7000 --offer /data/.snapshots
  braid pool replicate tcp://10.9.0.1:7000 /backup/data  # pull
  braid pool replicate --forget /backup/data

If interrupted, repeat the command: it continues where it stopped. The other computer needs braid \
too, and root, as this one does. --serve is for networks that are already encrypted, such as \
Braid's tunnel: it accepts only clients that know the key and come in through the device that has \
its address.")]
pub struct Replicate {
    #[command(flatten)]
    _json: JsonFlag,
    /// A folder of snapshots, or one snapshot; here or elsewhere
    #[arg(required_unless_present_any = ["serve", "forget"], value_name = "FROM")]
    from: Option<Place>,
    /// The folder for the replicas, here or elsewhere; if it isn't on btrfs, streams are stored
    /// there
    #[arg(required_unless_present_any = ["serve", "forget"], value_name = "TO")]
    to: Option<Place>,
    /// Send only the newest snapshot of each subvolume
    #[arg(long)]
    newest: bool,
    /// Send everything again, to a destination that has lost its replicas of these snapshots
    #[arg(long)]
    anew: bool,
    /// Limit the sending rate
    #[arg(long, value_name = "RATE", value_parser = rate_limit)]
    limit: Option<Rate>,
    /// Reconnect at most this many times in a row without progress; 0 for never
    #[arg(long, default_value_t = 20, value_name = "N")]
    retries: u32,
    /// Show what would be sent without sending it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
    /// Listen at this address for tcp:// clients
    #[arg(long, value_name = "ADDRESS:PORT", requires = "served", conflicts_with_all = ["from", "to"])]
    serve: Option<SocketAddr>,
    /// The folder below which --serve keeps replicas
    #[arg(long, value_name = "FOLDER", group = "served", requires = "serve")]
    into: Option<PathBuf>,
    /// The folder below which --serve has snapshots to send
    #[arg(long, value_name = "FOLDER", group = "served", requires = "serve")]
    offer: Option<PathBuf>,
    /// Delete unfinished replicas in this folder and forget the interrupted replication; on another
    /// computer, only forget it
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["from", "to", "serve"])]
    forget: Option<Place>,
    #[command(flatten)]
    state: carry_out::StateFolders,
}

impl Replicate {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let register = self.state.register();
        if let Some(place) = &self.forget {
            return forget(place, &register, global);
        }
        if let Some(address) = self.serve {
            let allowed = match (&self.into, &self.offer) {
                (Some(folder), _) => Allowed::Into(folder.clone()),
                (_, Some(folder)) => Allowed::From(folder.clone()),
                _ => {
                    return Err(Failure::new(
                        FailureKind::Usage,
                        "--serve needs --into FOLDER or --offer FOLDER",
                    ));
                }
            };
            // Check before a key is created.
            listener::check(address)?;
            let key = self.reach.key_to_serve_with()?;
            return Ok(listener::serve(address, &allowed, &key, &register, tell)?);
        }
        let (Some(from), Some(to)) = (self.from.clone(), self.to.clone()) else {
            return Err(Failure::new(
                FailureKind::Usage,
                "name the source (FROM) and the destination (TO)",
            ));
        };
        if self.dry_run {
            return self.show_what_would_be_sent(&from, &to, global);
        }
        let watch = Arc::new(match global.json {
            true => Watch::default(),
            false => Watch::with(Box::new(tell_at_once)),
        });
        let connector = self.reach.connector(&[&from, &to])?;
        let order = self.order(&from, &to);
        let order_words = (order.from.clone(), order.to.clone());
        let replication = Replication {
            order,
            register,
            from,
            to,
            newest: self.newest,
            anew: self.anew,
            retries: self.retries,
            connector,
            options: SendOptions {
                passing: false,
                limit: self.limit,
                estimate: progress_wanted::is_wanted(),
                watch: Arc::clone(&watch),
            },
        };
        say_when_interrupted(global.json)?;
        let line = BytesLine::start(move || doing(&watch));
        let outcome = replication.run(|error, pause| {
            tell(&format!("{error}; trying again in {}", format_duration(pause)));
        });
        line.end();
        if !std::io::stderr().is_terminal() {
            // Whoever watches the terminal sees it anyway.
            let failure = outcome.as_ref().err().map(ToString::to_string);
            let folder = Path::new(DEFAULT_WATCH).parent().unwrap_or(Path::new(""));
            let event = told::of_replication(&order_words.0, &order_words.1, failure.as_deref());
            told::tell_events(global, folder, &[event]);
        }
        let outcome = outcome?;
        global.print(&outcome, || text(&outcome))
    }

    /// The same order, valid from any directory.
    fn order(&self, from: &Place, to: &Place) -> Order {
        let [from, to] = [from, to].map(|place| match place {
            Place::Local(path) => absolute(path).display().to_string(),
            elsewhere => elsewhere.to_string(),
        });
        let mut words = self.reach.unusual_words();
        if self.newest {
            words.push("--newest".to_owned());
        }
        if let Some(limit) = self.limit {
            words.extend(["--limit".to_owned(), format!("{}bit", limit.bytes_per_sec() * 8)]);
        }
        words.extend([from.clone(), to.clone()]);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Order { host: host.trim().to_owned(), from, to, words }
    }

    /// Shows what would be sent. What another computer has is only known by asking it; this shows
    /// what is known here.
    fn show_what_would_be_sent(
        &self,
        from: &Place,
        to: &Place,
        global: &Global,
    ) -> Result<(), Failure> {
        let Place::Local(path) = from else {
            let text = "--dry-run looks at snapshots on this computer only";
            return Err(Failure::new(FailureKind::Usage, text));
        };
        let path = ExactPath::from(path.as_path());
        let choice = source::chosen(&Selection { path, newest: self.newest, anew: false })?;
        #[derive(Serialize)]
        struct Wanted {
            snapshots: Vec<ExactPath>,
            /// `None` if that isn't known.
            already_there: Option<usize>,
        }
        let names = choice.wanted.into_iter().map(|one| one.name);
        let wanted = match to {
            // Anything there with a snapshot's name is complete, including a stored stream.
            Place::Local(folder) => {
                let is_there = |name: &OsString| {
                    let mut stream = name.clone();
                    stream.push(".btrfs-stream");
                    folder.join(name).exists() || folder.join(stream).exists()
                };
                let (there, new): (Vec<_>, Vec<_>) = names.partition(is_there);
                let snapshots = new.into_iter().map(ExactPath::from).collect();
                Wanted { snapshots, already_there: Some(there.len()) }
            }
            _ => Wanted { snapshots: names.map(ExactPath::from).collect(), already_there: None },
        };
        global.print(&wanted, || {
            let names: String = wanted.snapshots.iter().map(|name| format!("\n{name}")).collect();
            match wanted.already_there {
                None => format!("of these, those missing at the destination would be sent:{names}"),
                Some(there) if wanted.snapshots.is_empty() => {
                    format!("nothing would be sent, {there} are already there")
                }
                Some(there) => format!("would be sent, {there} others are already there:{names}"),
            }
        })
    }
}

/// A signal ends it at once, which is harmless; but it says so.
fn say_when_interrupted(as_json: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io("listening for signals", &error);
    for signal in [SIGINT, SIGTERM] {
        let (mut told, teller) = UnixStream::pair().map_err(failed)?;
        pipe::register(signal, teller).map_err(failed)?;
        thread::spawn(move || {
            if told.read(&mut [0]).is_ok_and(|read| read > 0) {
                terminal_line::clear();
                let text = "interrupted: repeat the command to continue where it stopped";
                Failure::failed(text).report(as_json);
                let _ = emulate_default_handler(signal);
            }
        });
    }
    Ok(())
}

fn forget(place: &Place, register: &Register, global: &Global) -> Result<(), Failure> {
    let (name, forgotten) = match place {
        Place::Local(folder) => {
            // If the disk is gone for good, there is nothing to delete.
            let is_gone = matches!(folder.try_exists(), Ok(false));
            let begun = if is_gone { None } else { sink::abandon(folder)? };
            let here = ExactPath::from(absolute(folder));
            let is_here = |begun: &Begun| {
                let folders = [&begun.sends, &begun.receives].into_iter().flatten();
                folders.into_iter().any(|each| absolute(each.as_path()) == here.as_path())
            };
            let forgotten = register.forget(is_here)?;
            (begun.map(|begin| begin.name.to_string()), forgotten)
        }
        elsewhere => {
            let elsewhere = elsewhere.to_string();
            let is_there =
                |begun: &Begun| [&begun.order.from, &begun.order.to].contains(&&elsewhere);
            (None, register.forget(is_there)?)
        }
    };
    for begun in &forgotten {
        let to = begun.order.to.parse::<Place>();
        if let (Some(from), Ok(to)) = (&begun.sends, to) {
            source::forget_sending(from.as_path(), &to)?;
        }
    }
    let forgotten = forgotten.len();
    global.print(&json!({ "deleted": name, "forgotten": forgotten }), || match (&name, forgotten) {
        (Some(name), _) => format!("deleted the unfinished replica of {name}"),
        (None, 0) => "no replication had begun there".to_owned(),
        (None, _) => "forgotten; nothing had to be deleted here".to_owned(),
    })
}

/// The progress line's text.
fn doing(watch: &Watch) -> (String, Option<f64>) {
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (position, expected) = (load(&watch.position), load(&watch.expected));
    let count = match load(&watch.snapshots) {
        0 => String::new(),
        all => format!("snapshot {} of {all}, ", (load(&watch.done) + 1).min(all)),
    };
    let text = match position < load(&watch.resumed_at) {
        true => format!("{count}finding the resume position: {}", ByteSize::from_bytes(position)),
        false => format!("{count}{}", ByteSize::from_bytes(position)),
    };
    (text, (expected > 0).then(|| position as f64 / expected as f64))
}

/// Prints progress at once, so that logs show it, too.
fn tell_at_once(happening: Happening<'_>) {
    let line = match happening {
        // A terminal has a progress line for that.
        Happening::Begins(_) if progress_wanted::is_wanted() => return,
        Happening::Begins(name) => return terminal_line::say(&format!("… {name}")),
        Happening::Sent(sent) => line(sent),
        Happening::Received(name, bytes) => {
            format!("{name}: received, {}", ByteSize::from_bytes(bytes))
        }
    };
    // If printing fails, that is reported at the end.
    let _ = terminal_line::aside(|| print_line(&line));
}

/// Each snapshot was reported when it was complete.
fn text(outcome: &Outcome) -> String {
    let report = &outcome.report;
    match report.already_there {
        0 => format!("{} replicated to {}", report.snapshots.len(), report.place),
        there => format!(
            "{} replicated to {}, {there} were there already",
            report.snapshots.len(),
            report.place
        ),
    }
}

fn line(sent: &Sent) -> String {
    let parent = match &sent.parent {
        Some(parent) => format!("incremental to {parent}"),
        None => "in full".to_owned(),
    };
    let resumed = match sent.resumed_at {
        0 => String::new(),
        at => format!(", resumed at {}", ByteSize::from_bytes(at)),
    };
    format!(
        "{}: {parent}, {} in {}{resumed}",
        sent.name,
        ByteSize::from_bytes(sent.stream_bytes),
        format_duration(Duration::from_millis((sent.seconds * 1e3) as u64)),
    )
}
