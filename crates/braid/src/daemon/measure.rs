//! Measures what each link carries to the concentrator, alone and together with the others. A link
//! is measured alone by putting all others on standby: users' traffic then also goes over it.

use super::supervise::{start_thread, supervise_unneeded};
use super::tunnel::Tunnel;
use braid_control::config::{Config, LinkChange};
use braid_control::measured::{LinkMeasure, MeasureStatus, Measured, NewMeasure, Rates};
use braid_control::request::{Refusal, Request};
use braid_control::status::{PathState, Status};
use braid_history::unix_now;
use braid_speed::{Direction, MeasureError, PORT, Server, load_of, measure};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The measurement that runs, or ran last.
#[derive(Clone, Default)]
pub struct Measuring(Arc<Mutex<MeasureStatus>>);

/// How long each direction is measured.
const USUAL_SECONDS: u32 = 4;
const SECONDS: std::ops::RangeInclusive<u32> = 1..=20;
/// Concurrent connections, as one window doesn't fill a long line.
const CONNECTIONS: usize = 4;
/// Pause after changing a link's role, so that packets in flight on others arrive.
const SETTLES: Duration = Duration::from_millis(700);

/// The server for homes' measurements, at a concentrator that allows it.
pub fn serve(config: &Config) -> Option<Server> {
    let interface = &config.interface;
    if interface.listen.is_empty() || !interface.speed_test {
        return None;
    }
    let address = |network: &ipnet::IpNet| SocketAddr::new(network.addr(), PORT);
    let addresses: Vec<SocketAddr> = interface.addresses.iter().map(address).collect();
    Server::start(&addresses, interface.addresses.clone())
        .inspect_err(|error| tracing::warn!("homes can't measure the tunnel: {error}"))
        .ok()
}

impl Measuring {
    /// Its progress.
    pub fn status(&self) -> MeasureStatus {
        self.now().clone()
    }

    /// Starts a measurement on a thread of its own.
    pub fn start(&self, tunnel: Weak<dyn Tunnel>, wish: &NewMeasure) -> Result<(), Refusal> {
        let going_down = || Refusal::Failed("the tunnel is shutting down".into());
        let running = tunnel.upgrade().ok_or_else(going_down)?;
        let plan = Plan::of(&running.config_now(), &running.status(), wish)?;
        {
            let mut now = self.now();
            if now.running {
                return Err(Refusal::Invalid("a measurement is already running".into()));
            }
            *now = MeasureStatus {
                running: true,
                steps: plan.steps(),
                left_out: plan.left_out.clone(),
                ..MeasureStatus::default()
            };
        }
        let measuring = self.clone();
        let thread = start_thread("braid-measure", move || {
            supervise_unneeded("braid-measure", || {
                let run = Run { tunnel: &tunnel, measuring: &measuring, plan: &plan };
                let outcome = run.all();
                let mut now = measuring.now();
                now.running = false;
                now.step.clear();
                now.at_unix = Some(unix_now());
                now.trouble = outcome.err();
            });
            // Whatever happened.
            measuring.now().running = false;
        });
        if let Err(error) = thread {
            self.now().running = false;
            return Err(Refusal::Failed(error.to_string()));
        }
        Ok(())
    }

    fn now(&self) -> MutexGuard<'_, MeasureStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be measured.
#[derive(Debug)]
struct Plan {
    /// The other end's address in the tunnel.
    to: SocketAddr,
    /// Alone, one after another.
    links: Vec<String>,
    left_out: Vec<String>,
    lasts: Duration,
    /// All links, and which stand by.
    roles: Vec<(String, bool)>,
}

impl Plan {
    fn of(config: &Config, status: &Status, wish: &NewMeasure) -> Result<Plan, Refusal> {
        let to = other_end(config)?;
        let seconds = wish.seconds.unwrap_or(USUAL_SECONDS);
        if !SECONDS.contains(&seconds) {
            return Err(Refusal::Invalid("measure for 1 to 20 seconds per direction".into()));
        }
        let (mut links, mut left_out) = (Vec::new(), Vec::new());
        for link in &config.links {
            let name = link.name.to_string();
            if wish.link.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            let paths = status.peers.iter().flat_map(|peer| &peer.paths);
            let states: Vec<PathState> =
                paths.filter(|path| path.link == name).map(|path| path.state).collect();
            let works = |state: &PathState| matches!(state, PathState::Active | PathState::Standby);
            if states.contains(&PathState::OverQuota) {
                left_out.push(format!("{name}: its quota is used up"));
            } else if !states.iter().any(works) {
                left_out.push(format!("{name}: it doesn't work"));
            } else if link.quota.is_some() && !wish.metered && wish.link.is_none() {
                left_out.push(format!("{name}: it has a quota"));
            } else {
                links.push(name);
            }
        }
        if links.is_empty() {
            let why = match (&wish.link, left_out.first()) {
                (_, Some(why)) => why.clone(),
                (Some(link), None) => format!("there is no link {link:?}"),
                (None, None) => "there are no links".to_owned(),
            };
            return Err(Refusal::Invalid(format!("nothing to measure: {why}")));
        }
        let roles = config.links.iter().map(|link| (link.name.to_string(), link.standby)).collect();
        Ok(Plan { to, links, left_out, lasts: Duration::from_secs(seconds.into()), roles })
    }

    /// Each direction of each link and of all, and one connection.
    fn steps(&self) -> usize {
        2 * self.links.len() + 3
    }
}

/// The concentrator normally has the first address of the tunnel's network.
fn other_end(config: &Config) -> Result<SocketAddr, Refusal> {
    if config.peers.iter().all(|peer| peer.endpoints.is_empty()) {
        return Err(Refusal::Invalid(
            "links are measured from the home's end: this is a concentrator".into(),
        ));
    }
    let addresses = &config.interface.addresses;
    let v4_first = addresses.iter().filter(|network| network.addr().is_ipv4());
    let v4_first = v4_first.chain(addresses.iter().filter(|network| network.addr().is_ipv6()));
    let found: Option<IpAddr> = v4_first.filter_map(first).next();
    let none = || {
        Refusal::Invalid(
            "the concentrator's address in the tunnel isn't known: interface.addresses has no \
             network of which it could be the first"
                .into(),
        )
    };
    found.map(|address| SocketAddr::new(address, PORT)).ok_or_else(none)
}

struct Run<'a> {
    tunnel: &'a Weak<dyn Tunnel>,
    measuring: &'a Measuring,
    plan: &'a Plan,
}

impl Run<'_> {
    fn all(&self) -> Result<(), String> {
        let mut measured = Measured::default();
        let roles = Roles { run: self };
        for link in &self.plan.links {
            roles.alone(link)?;
            let down = self.step(&format!("{link} alone, down"), Direction::Down, CONNECTIONS)?;
            let up = self.step(&format!("{link} alone, up"), Direction::Up, CONNECTIONS)?;
            measured.links.push(LinkMeasure {
                link: link.clone(),
                rates: Rates { down: down.mbit, up: up.mbit },
                first_half_down: down.halves[0],
                second_half_down: down.halves[1],
                as_part: None,
            });
            self.measuring.now().measured = Some(measured.clone());
        }
        drop(roles);
        thread::sleep(SETTLES);
        let (to, lasts) = (self.plan.to, self.plan.lasts);
        let load = start_thread("braid-load", move || load_of(to, lasts).ok());
        let before = self.carried()?;
        let began = Instant::now();
        let down = self.step("all together, down", Direction::Down, CONNECTIONS)?.mbit;
        let up = self.step("all together, up", Direction::Up, CONNECTIONS)?.mbit;
        let (now, seconds) = (self.carried()?, began.elapsed().as_secs_f64() / 2.0);
        for link in &mut measured.links {
            let of = |carried: &[(String, u64, u64)]| {
                let found = carried.iter().find(|(name, ..)| *name == link.link);
                found.map_or((0, 0), |(_, rx, tx)| (*rx, *tx))
            };
            let (then, now) = (of(&before), of(&now));
            let mbit = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8e-6 / seconds;
            link.as_part = Some(Rates { down: mbit(now.0, then.0), up: mbit(now.1, then.1) });
        }
        measured.together = Rates { down, up };
        measured.load_there = load.ok().and_then(|load| load.join().ok()?);
        let one = self.step("one connection, down", Direction::Down, 1)?.mbit;
        measured.one_connection = Rates { down: one, up: 0.0 };
        self.measuring.now().measured = Some(measured);
        Ok(())
    }

    fn step(
        &self,
        name: &str,
        direction: Direction,
        connections: usize,
    ) -> Result<braid_speed::Rate, String> {
        self.measuring.now().step = name.to_owned();
        let rate = measure(self.plan.to, direction, connections, self.plan.lasts);
        let rate = rate.map_err(|error: MeasureError| format!("{name}: {error}"))?;
        self.measuring.now().done += 1;
        Ok(rate)
    }

    /// Bytes that each link has received and sent.
    fn carried(&self) -> Result<Vec<(String, u64, u64)>, String> {
        let status = self.tunnel.upgrade().ok_or("the tunnel is shutting down")?.status();
        let paths: Vec<_> = status.peers.iter().flat_map(|peer| &peer.paths).collect();
        let of = |(name, _): &(String, bool)| {
            let own = || paths.iter().filter(|path| path.link == *name);
            let rx = own().map(|path| path.rx_bytes).sum();
            let tx = own().map(|path| path.tx_bytes).sum();
            (name.clone(), rx, tx)
        };
        Ok(self.plan.roles.iter().map(of).collect())
    }

    fn set_standby(&self, name: &str, standby: bool) -> Result<(), String> {
        let tunnel = self.tunnel.upgrade().ok_or("the tunnel is shutting down")?;
        let now = tunnel.config_now();
        if now.link(name).is_none_or(|link| link.standby == standby) {
            return Ok(());
        }
        let change = LinkChange { standby: Some(standby), ..LinkChange::default() };
        let request = Request::SetLink { name: name.to_owned(), change };
        tunnel.execute(request).map_err(|refusal| refusal.to_string())
    }
}

/// Puts other links on standby while one is measured alone; dropping it restores their roles.
struct Roles<'a> {
    run: &'a Run<'a>,
}

impl Roles<'_> {
    fn alone(&self, link: &str) -> Result<(), String> {
        // First the active one, so that there is always one.
        self.run.set_standby(link, false)?;
        for (name, _) in self.run.plan.roles.iter().filter(|(name, _)| name != link) {
            self.run.set_standby(name, true)?;
        }
        thread::sleep(SETTLES);
        Ok(())
    }
}

impl Drop for Roles<'_> {
    fn drop(&mut self) {
        for (name, standby) in &self.run.plan.roles {
            if let Err(why) = self.run.set_standby(name, *standby) {
                tracing::warn!(link = name, "can't restore its role: {why}");
            }
        }
    }
}

/// The first address of a network, if it has others, and isn't this host's.
fn first(network: &ipnet::IpNet) -> Option<IpAddr> {
    let first: IpAddr = match network.network() {
        IpAddr::V4(base) => Ipv4Addr::from(u32::from(base).checked_add(1)?).into(),
        IpAddr::V6(base) => Ipv6Addr::from(u128::from(base).checked_add(1)?).into(),
    };
    (network.contains(&first) && first != network.addr()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::status::{PathStatus, PeerStatus};
    use std::path::Path;

    fn config(addresses: &str) -> Config {
        let link = |name: &str, more: &str| {
            format!("[[link]]\nname = \"{name}\"\ninterface = \"{name}\"\n{more}\n")
        };
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\naddresses = [{addresses}]\n{}{}{}\
             [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
             endpoints = [\"192.0.2.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\"]",
            link("dsl", ""),
            link("lte", "quota = { bytes = \"20GB\", per = \"month\" }"),
            link("sat", ""),
        );
        Config::parse(&text, Path::new("c.toml")).unwrap()
    }

    fn status() -> Status {
        let path = |(link, state): (&str, PathState)| PathStatus {
            link: link.into(),
            state,
            ..PathStatus::default()
        };
        let states =
            [("dsl", PathState::Active), ("lte", PathState::Active), ("sat", PathState::Down)];
        let peer = PeerStatus { paths: states.map(path).to_vec(), ..PeerStatus::default() };
        Status { peers: vec![peer], ..Status::default() }
    }

    #[test]
    fn links_that_cost_or_do_not_work_are_left_out_and_it_is_said_why() {
        let config = config("\"10.77.0.2/24\"");
        let wish = NewMeasure::default();
        let plan = Plan::of(&config, &status(), &wish).unwrap();
        assert_eq!((plan.links, plan.to), (vec!["dsl".into()], "10.77.0.1:51901".parse().unwrap()));
        assert_eq!(plan.left_out, ["lte: it has a quota", "sat: it doesn't work"]);
        let metered = NewMeasure { metered: true, ..wish.clone() };
        assert_eq!(Plan::of(&config, &status(), &metered).unwrap().links, ["dsl", "lte"]);
        // If the user names a metered link, it is measured.
        let named = NewMeasure { link: Some("lte".into()), ..wish.clone() };
        assert_eq!(Plan::of(&config, &status(), &named).unwrap().links, ["lte"]);
        for (link, why) in [("sat", "doesn't work"), ("x", "no link \"x\"")] {
            let named = NewMeasure { link: Some(link.into()), ..wish.clone() };
            let refusal = Plan::of(&config, &status(), &named).unwrap_err().to_string();
            assert!(refusal.contains(why), "{refusal}");
        }
        let long = NewMeasure { seconds: Some(500), ..wish };
        assert!(Plan::of(&config, &status(), &long).is_err());
    }

    #[test]
    fn the_other_end_has_the_first_address() {
        let of = |addresses| other_end(&config(addresses)).map(|to| to.to_string());
        assert_eq!(of("\"fd77::2/64\", \"10.77.0.9/24\"").unwrap(), "10.77.0.1:51901");
        assert_eq!(of("\"10.77.0.1/24\", \"fd77::2/64\"").unwrap(), "[fd77::1]:51901");
        assert!(of("\"10.77.0.2/32\"").is_err());
    }
}
