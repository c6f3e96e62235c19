mod plan;

use super::doctor::measure;
use super::failure::{self, Failure, FailureKind};
use super::offered::Offered;
use super::status_table::columns;
use super::{Global, JsonFlag, uplinks};
use crate::daemon::links_now::{self, LinkNow};
use braid_control::client::{Client, ClientError};
use braid_control::config::{Config, ConfigEditor, Link, LinkBinding, LinkChange, LinkKind, Mode};
use braid_control::measured::NewMeasure;
use braid_control::request::NewLink;
use braid_control::status::{LinkStatus, PathState, PathStatus, QuotaStatus, Status};
use braid_linux::udp::{Family, LinkBind, LinkSocket};
use braid_units::ByteSize;
use clap::{Args, Subcommand};
use serde_json::json;
use std::net::IpAddr;
use std::time::{Duration, Instant};

#[derive(Subcommand)]
pub enum LinkCommand {
    /// Rank the engines that could bond these links, with reasons
    Plan(plan::Plan),
    /// Add a link
    Add(Add),
    /// Change a link
    Set(Add),
    /// Remove a link
    Remove(Remove),
    /// Test whether a link works: device, socket, and its paths while the tunnel runs
    Test(Test),
    /// Reach the login page (captive portal) of a hotel's or train's network over this link
    Login(Login),
    /// List the configured links, and uplinks of the host that aren't configured yet
    List(List),
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid link add lte --interface wwan0 --quota 20GB/month\n  braid link add phone --kind tether   # whatever name its interface has\n  braid link set lte --tier 1      # with `braid mode overflow`: when the others are full\n  braid link set lte --standby true --cap-down 10Mbit"
)]
pub struct Add {
    #[command(flatten)]
    _json: JsonFlag,
    /// The link's name
    name: String,
    /// Send through this network device
    #[arg(long)]
    interface: Option<String>,
    /// Send through the interface of this kind: ethernet, wifi, wwan or tether (a phone)
    #[arg(long, conflicts_with = "interface", value_parser = Offered::<String>::new(LinkKind::WORDS), hide_possible_values = true)]
    kind: Option<String>,
    /// Send through the interface of this USB device, as lsusb shows it, such as 18d1:4eeb
    #[arg(long, value_name = "VENDOR:PRODUCT", conflicts_with = "interface")]
    usb: Option<String>,
    /// Send through the interface that this NetworkManager connection is active on
    #[arg(long, value_name = "NAME", conflicts_with = "interface")]
    connection: Option<String>,
    /// Send from this address of the host
    #[arg(long)]
    source: Option<String>,
    /// Send through this gateway
    #[arg(long)]
    gateway: Option<String>,
    /// Send with this firewall mark
    #[arg(long)]
    fwmark: Option<u32>,
    /// In mode overflow lower tiers are filled first, in active-backup preferred; other modes use
    /// all tiers
    #[arg(long)]
    tier: Option<u8>,
    /// Whether it is metered, which puts it one tier later; by default NetworkManager is asked
    #[arg(long)]
    metered: Option<bool>,
    /// Use it only when no other link works
    #[arg(long)]
    standby: Option<bool>,
    /// Price of a gigabyte
    #[arg(long)]
    price: Option<f64>,
    /// auto (UDP, or whatever passes while UDP doesn't), udp or tls
    #[arg(long, value_parser = Offered::<String>::new(["auto", "udp", "tls"]), hide_possible_values = true)]
    transport: Option<String>,
    /// HTTP proxy through which TLS is tried as well, such as http://10.0.0.1:3128; "none" removes
    /// it
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Limit on the receiving rate, such as 5Mbit; "none" removes it
    #[arg(long, value_name = "RATE")]
    cap_down: Option<String>,
    /// Limit on the sending rate, such as 400kbit; "none" removes it
    #[arg(long, value_name = "RATE")]
    cap_up: Option<String>,
    /// Data quota, such as 20GB/month or 1GB/day; "none" removes it
    #[arg(long, value_name = "BYTES/PERIOD")]
    quota: Option<String>,
    /// Change only the running tunnel, not the config
    #[arg(long)]
    temporary: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid link remove lte")]
pub struct Remove {
    #[command(flatten)]
    _json: JsonFlag,
    /// The link's name
    name: String,
    /// Change only the running tunnel, not the config
    #[arg(long)]
    temporary: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  braid link test lte\n  braid link test lte --speed")]
pub struct Test {
    #[command(flatten)]
    _json: JsonFlag,
    /// The link's name
    name: String,
    /// Measure its throughput to the concentrator, alone and as part of the tunnel; meanwhile all
    /// traffic goes over it
    #[arg(long)]
    speed: bool,
    /// How long each direction is measured, 1 to 20 [default: 4]
    #[arg(long, value_name = "SECONDS", requires = "speed")]
    seconds: Option<u32>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid link login wifi     # prints the page's address")]
pub struct Login {
    #[command(flatten)]
    _json: JsonFlag,
    /// The link's name
    name: String,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid link list")]
pub struct List {
    #[command(flatten)]
    _json: JsonFlag,
}

impl LinkCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            LinkCommand::Plan(plan) => plan.run(global),
            LinkCommand::Add(add) => {
                let new = NewLink { name: add.name.clone(), link: add.change() };
                let edit = |editor: &mut ConfigEditor| Ok(editor.add_link(&new.name, &new.link)?);
                change(global, "added", &add.name, add.temporary, edit, |client| {
                    client.add_link(&new)
                })?;
                add.tell_of_tiers(global);
                tell_of_trouble(global, &add.name);
                Ok(())
            }
            LinkCommand::Set(set) => {
                let settings = set.change();
                if settings == LinkChange::default() {
                    let message = "nothing to change; name a setting such as --tier 1";
                    return Err(Failure::new(FailureKind::Usage, message));
                }
                let edit = |editor: &mut ConfigEditor| Ok(editor.set_link(&set.name, &settings)?);
                change(global, "changed", &set.name, set.temporary, edit, |client| {
                    client.set_link(&set.name, &settings)
                })?;
                set.tell_of_tiers(global);
                tell_of_trouble(global, &set.name);
                Ok(())
            }
            LinkCommand::Remove(remove) => {
                let edit = |editor: &mut ConfigEditor| Ok(editor.remove_link(&remove.name)?);
                change(global, "removed", &remove.name, remove.temporary, edit, |client| {
                    client.remove_link(&remove.name)
                })
            }
            LinkCommand::Test(test) => test.run(global),
            LinkCommand::Login(login) => login.run(global),
            LinkCommand::List(_) => list(global),
        }
    }
}

impl Add {
    fn change(&self) -> LinkChange {
        let none = || "none".to_owned();
        let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| text != "none");
        let named = is_given(&self.interface);
        let matches = [&self.kind, &self.usb, &self.connection].into_iter().any(is_given);
        LinkChange {
            // Either replaces the other.
            interface: self.interface.clone().or_else(|| matches.then(none)),
            kind: self.kind.clone().or_else(|| named.then(none)),
            usb: self.usb.clone().or_else(|| named.then(none)),
            connection: self.connection.clone().or_else(|| named.then(none)),
            source: self.source.clone(),
            gateway: self.gateway.clone(),
            fwmark: self.fwmark,
            tier: self.tier,
            metered: self.metered,
            standby: self.standby,
            price: self.price,
            transport: self.transport.clone(),
            proxy: self.proxy.clone(),
            cap_down: self.cap_down.clone(),
            cap_up: self.cap_up.clone(),
            quota: self.quota.clone(),
        }
    }
}

impl Add {
    /// Most modes use links of every tier, which users who set one may not expect.
    fn tell_of_tiers(&self, global: &Global) {
        let Ok(config) = global.load_config() else { return };
        let mode = config.interface.mode;
        if self.tier.is_some() && !matches!(mode, Mode::Overflow | Mode::ActiveBackup) {
            failure::tell(&format!(
                "mode {mode} uses links of every tier; `braid mode overflow` fills lower tiers first"
            ));
        }
    }
}

/// Says why the link carries nothing yet, if so.
fn tell_of_trouble(global: &Global, name: &str) {
    let Ok(config) = global.load_config() else { return };
    let links = links_now::of_tunnel(&config).unwrap_or_default();
    let trouble = links.into_iter().filter(|link| link.name == name).find_map(|it| it.trouble);
    if let Some(trouble) = trouble {
        failure::tell(&format!("link {name}: {trouble}; it is used as soon as possible"));
    }
}

/// Changes the config (unless temporary) and the running tunnel (if there is one).
fn change(
    global: &Global,
    done: &str,
    name: &str,
    temporary: bool,
    edit: impl FnOnce(&mut ConfigEditor) -> Result<(), Failure>,
    tell: impl FnOnce(&Client) -> Result<(), ClientError>,
) -> Result<(), Failure> {
    let client = global.client()?;
    let mut place = None;
    if !temporary {
        let mut editor = ConfigEditor::open_alone(&global.config_file())?;
        edit(&mut editor).map_err(|failure| of_running_alone(&client, name).unwrap_or(failure))?;
        editor.save()?;
        place = Some(editor.place_of("link", name));
    }
    let running = match tell(&client) {
        Ok(()) => true,
        Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) if !temporary => false,
        Err(error) => return Err(error.into()),
    };
    let value = json!({
        "link": name, "done": done, "running": running, "saved": !temporary, "place": place,
    });
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    global.print(&value, || match running {
        true => format!("link {name}: {done}{place}"),
        false => format!("link {name}: {done}{place}, starting with the next `braid up`"),
    })
}

/// The error if only the running tunnel has the link, so that the config can't be changed.
fn of_running_alone(client: &Client, name: &str) -> Option<Failure> {
    let status = client.status().ok()?;
    status.links.iter().any(|link| link.name == name).then(|| {
        Failure::failed(format!(
            "link {name} isn't in the config, only in the running tunnel: it was added \
             temporarily. `--temporary` changes it there"
        ))
    })
}

impl Test {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        let link = config.link(&self.name).ok_or_else(|| {
            let known: Vec<&str> = config.links.iter().map(|link| link.name.as_str()).collect();
            Failure::failed(format!(
                "there is no link {:?}; the links are: {}",
                self.name,
                known.join(", ")
            ))
        })?;
        let now = links_now(&config)?;
        let trouble = now.iter().find(|it| it.name == self.name).and_then(|it| it.trouble.clone());
        let now = bindings(&config, now);
        let of_it = |it: &(&Link, &LinkBinding)| it.0.name == link.name;
        let by = config.links.iter().zip(&now).find(of_it).map_or(&link.binding, |(_, by)| by);
        let sockets: Vec<(Family, Result<String, String>)> =
            families(link).into_iter().map(|family| (family, try_socket(by, family))).collect();
        let paths = global.status_if_running()?.map(|status| {
            let paths = status.peers.into_iter().flat_map(|peer| peer.paths);
            paths.filter(|path| path.link == self.name).collect::<Vec<_>>()
        });
        let measured = match self.speed {
            true => {
                let (link, seconds) = (Some(self.name.clone()), self.seconds);
                let wish = NewMeasure { link, seconds, ..NewMeasure::default() };
                Some(measure::run(&global.client()?, &wish)?)
            }
            false => None,
        };
        let works = match &paths {
            // The tunnel's path state may be outdated.
            _ if trouble.is_some() => false,
            Some(paths) => paths.iter().any(is_alive),
            None => sockets.iter().any(|(_, opened)| opened.is_ok()),
        };
        let value = json!({
            "link": self.name,
            "works": works,
            "running": paths.is_some(),
            "trouble": trouble,
            "sockets": sockets.iter().map(|(family, opened)| json!({
                "family": family_name(*family),
                "local": opened.as_ref().ok(),
                "error": opened.as_ref().err(),
            })).collect::<Vec<_>>(),
            "paths": paths,
            "measured": measured,
        });
        global.print(&value, || {
            let table = measured.as_ref().map(measure::render);
            let report = report(&sockets, paths.as_deref());
            [trouble, Some(report), table].into_iter().flatten().collect::<Vec<_>>().join("\n")
        })?;
        match works {
            true => Ok(()),
            false => Err(Failure::failed(format!("link {} does not work", self.name))),
        }
    }
}

/// How long to look for the page, which answers within seconds or never.
const LOOKING: Duration = Duration::from_secs(20);

impl Login {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let client = global.client()?;
        client.open_portal(&self.name)?;
        let begun = Instant::now();
        while begun.elapsed() < LOOKING {
            let links = client.status()?.links.into_iter();
            let found = links.filter(|link| link.name == self.name).find_map(|link| link.portal);
            if let Some(url) = found {
                let value = json!({ "link": self.name, "portal": url });
                return global.print(&value, || {
                    format!(
                        "open {url} in a browser: for 15 minutes, or until it works, that page is \
                         reached by link {}",
                        self.name
                    )
                });
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Err(Failure::failed(format!(
            "link {} has no login page: no web page was redirected",
            self.name
        )))
    }
}

fn is_alive(path: &PathStatus) -> bool {
    matches!(path.state, PathState::Active | PathState::Standby | PathState::OverQuota)
}

fn report(sockets: &[(Family, Result<String, String>)], paths: Option<&[PathStatus]>) -> String {
    let mut lines: Vec<String> = sockets
        .iter()
        .map(|(family, opened)| match opened {
            Ok(local) => format!("{} socket: opened, {local}", family_name(*family)),
            Err(error) => format!("{} socket: {error}", family_name(*family)),
        })
        .collect();
    match paths {
        None => lines.push("no tunnel is running: paths not tested".to_owned()),
        Some([]) => lines.push("the running tunnel has no path over it".to_owned()),
        Some(paths) => lines.extend(paths.iter().map(|path| {
            let remote = path.remote.map_or_else(|| "?".to_owned(), |remote| remote.to_string());
            let rtt = path.srtt_ms.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms:.1}ms"));
            let state = path.state.as_str();
            let by = path.transport.as_str();
            format!(
                "path to {remote} by {by}: {state}, RTT {rtt}, loss {:.1}%, MTU {}",
                path.loss * 100.0,
                path.mtu
            )
        })),
    }
    lines.join("\n")
}

fn families(link: &Link) -> Vec<Family> {
    match link.binding.source.or(link.binding.gateway) {
        Some(IpAddr::V4(_)) => vec![Family::V4],
        Some(IpAddr::V6(_)) => vec![Family::V6],
        None => vec![Family::V4, Family::V6],
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

fn links_now(config: &Config) -> Result<Vec<LinkNow>, Failure> {
    links_now::of_tunnel(config)
        .map_err(|error| Failure::io("looking at the host's network", &error))
}

/// How links are bound; links that the config selects by kind are given their current interfaces.
fn bindings(config: &Config, now: Vec<LinkNow>) -> Vec<LinkBinding> {
    let bindings = config.links.iter().zip(now).map(|(link, now)| match link.binding.matches {
        Some(_) => LinkBinding {
            interface: now.device.and_then(|device| device.name.parse().ok()),
            ..link.binding.clone()
        },
        None => link.binding.clone(),
    });
    bindings.collect()
}

fn try_socket(by: &LinkBinding, family: Family) -> Result<String, String> {
    if let (Some(wanted), None) = (&by.matches, &by.interface) {
        return Err(format!("no interface matches {wanted}"));
    }
    let bind = LinkBind {
        device: by.interface.as_ref().map(ToString::to_string),
        source: by.source,
        fwmark: by.fwmark,
        port: 0,
        family,
    };
    let address = LinkSocket::open(&bind).and_then(|socket| socket.local_address());
    address.map(|address| address.to_string()).map_err(|error| error.to_string())
}

fn list(global: &Global) -> Result<(), Failure> {
    let config = global.load_config()?;
    let now = links_now(&config)?;
    let troubles: Vec<Option<String>> = now.iter().map(|link| link.trouble.clone()).collect();
    let now = bindings(&config, now);
    let bindings: Vec<&LinkBinding> = now.iter().collect();
    let free = uplinks::find_free(config.interface.name.as_str(), &bindings)
        .map_err(|error| Failure::io("looking for uplinks", &error))?;
    let status = global.status_if_running()?;
    let listed: Vec<Listed<'_>> = config
        .links
        .iter()
        .zip(&now)
        .zip(troubles)
        .map(|((link, by), trouble)| Listed::new(link, by, trouble, status.as_ref()))
        .collect();
    let running = status.iter().flat_map(|status| &status.links);
    let temporary: Vec<&LinkStatus> =
        running.filter(|link| config.link(&link.name).is_none()).collect();
    let states = |name: &str| status.as_ref().and_then(|status| state_of(status, name));
    let of_config = listed.iter().map(Listed::to_json);
    let for_now = temporary.iter().map(|link| {
        json!({
            "name": link.name, "interface": link.interface, "state": states(&link.name),
            "trouble": link.trouble, "tier": link.tier, "metered": link.metered,
            "standby": link.standby, "temporary": true,
        })
    });
    let links: Vec<_> = of_config.chain(for_now).collect();
    let value = json!({ "links": links, "other_uplinks": free });
    global.print(&value, || {
        let head = ["LINK", "BY", "STATE", "TIER", "STANDBY", "PRICE", "QUOTA"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(listed.iter().map(Listed::to_row));
        rows.extend(temporary.iter().map(|link| {
            let state = states(&link.name).map(|state| state.as_str().to_owned());
            vec![
                link.name.clone(),
                link.interface.clone().unwrap_or_else(|| "-".to_owned()) + ", for now",
                link.trouble.clone().or(state).unwrap_or_else(|| "-".to_owned()),
                link.tier.to_string(),
                if link.standby { "yes" } else { "no" }.to_owned(),
                "-".to_owned(),
                "-".to_owned(),
            ]
        }));
        let mut lines = columns(&rows);
        lines.extend(free.iter().map(|uplink| {
            let name = &uplink.interface;
            format!("not used: {name} (`braid link add {name} --interface {name}` adds it)")
        }));
        lines.join("\n")
    })
}

/// The state of a link's first working path, or else of its first path.
fn state_of(status: &Status, link: &str) -> Option<PathState> {
    let paths = || status.peers.iter().flat_map(|peer| &peer.paths);
    let own = || paths().filter(|path| path.link == link);
    own().find(|path| is_alive(path)).or_else(|| own().next()).map(|path| path.state)
}

/// A configured link and its current state.
struct Listed<'a> {
    link: &'a Link,
    by: &'a LinkBinding,
    trouble: Option<String>,
    /// Its path's state; `None` while no tunnel runs or has a path on it.
    state: Option<PathState>,
    /// Its allowance and use, as counted by the running tunnel.
    quota: Option<QuotaStatus>,
}

impl<'a> Listed<'a> {
    fn new(
        link: &'a Link,
        by: &'a LinkBinding,
        trouble: Option<String>,
        status: Option<&Status>,
    ) -> Self {
        let name = link.name.as_str();
        let known = status.and_then(|it| it.links.iter().find(|known| known.name == name));
        let quota = known.and_then(|known| known.quota.clone());
        let state = status.and_then(|status| state_of(status, name));
        Listed { link, by, trouble, state, quota }
    }

    fn to_json(&self) -> serde_json::Value {
        let Listed { link, by, trouble, state, quota } = self;
        json!({
            "name": link.name.as_str(),
            "temporary": false,
            "interface": by.interface.as_ref().map(ToString::to_string),
            "match": link.binding.matches.as_ref().map(ToString::to_string),
            "source": link.binding.source,
            "gateway": link.binding.gateway,
            "fwmark": link.binding.fwmark,
            "state": state,
            "trouble": trouble,
            "tier": link.tier,
            "metered": link.metered,
            "standby": link.standby,
            "price": link.price,
            "quota_bytes": link.quota.map(|quota| quota.bytes.bytes()),
            "used_bytes": quota.as_ref().map(|quota| quota.used_bytes),
        })
    }

    fn to_row(&self) -> Vec<String> {
        let Listed { link, by, trouble, state, quota } = self;
        let leaves = [
            by.interface.as_ref().map(ToString::to_string),
            by.matches.as_ref().map(ToString::to_string),
            by.source.map(|source| format!("from {source}")),
            by.gateway.map(|gateway| format!("through {gateway}")),
            by.fwmark.map(|mark| format!("mark {mark}")),
        ];
        let leaves: Vec<String> = leaves.into_iter().flatten().collect();
        let state = state.map(|state| state.as_str().to_owned());
        let allowed = link.quota.map(|quota| quota.bytes.to_string());
        let none = || "-".to_owned();
        vec![
            link.name.to_string(),
            leaves.join(", "),
            trouble.clone().or(state).unwrap_or_else(none),
            link.tier.to_string(),
            if link.standby { "yes" } else { "no" }.to_owned(),
            link.price.map_or_else(none, |price| price.to_string()),
            match (quota, allowed) {
                (Some(quota), Some(allowed)) => {
                    format!("{} of {allowed}", ByteSize::from_bytes(quota.used_bytes))
                }
                (_, allowed) => allowed.unwrap_or_else(none),
            },
        ]
    }
}
