//! systemd-resolved queries each name server over the device that it belongs to. So that queries go
//! through the tunnel, the tunnel's device gets its own name servers and domains there
//! (`resolvectl`; systemd-resolved.service(8), "Protocols and routing"). They disappear with the
//! device.

use super::kill_switch;
use braid_control::config::Config;
use braid_linux::tool;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// What was set for the tunnel's device.
#[derive(Default)]
pub struct SystemdResolved {
    told: Option<Told>,
    /// When to retry, if setting it failed.
    again: Option<Instant>,
}

struct Told {
    device_dns: DeviceDns,
    instance: Option<Instance>,
}

/// Name servers of a device, and the domains that they are used for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceDns {
    servers: Vec<IpAddr>,
    /// `~.` is all names, `~example.org` that and all below; `~` says that it is no search domain.
    domains: Vec<String>,
}

/// Identifies a run of systemd-resolved: its socket's inode and change time. After a restart it
/// knows nothing.
type Instance = (u64, i64);

/// Its varlink socket, recreated whenever it starts.
const SOCKET: &str = "/run/systemd/resolve/io.systemd.Resolve";
/// Timeout; it answers within some 10 ms.
const ANSWERS: Duration = Duration::from_secs(2);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(60);

impl SystemdResolved {
    /// Call when the config may have changed, systemd-resolved may have restarted, or `working`
    /// (whether a peer answers) has changed.
    pub fn follow(&mut self, config: &Config, working: bool, now: Instant) {
        let (device, instance) = (config.interface.name.as_str(), instance());
        let wanted = wanted(config, working);
        let told = self.told.as_ref();
        let is_so = told.is_some_and(|told| told.instance == instance)
            && told.map(|told| &told.device_dns) == wanted.as_ref();
        if is_so || told.is_none() && wanted.is_none() {
            return;
        }
        if self.again.is_some_and(|again| now < again) {
            return;
        }
        let done = match &wanted {
            Some(wanted) => tell(device, wanted),
            None => ask(&["revert", device]),
        };
        match done {
            Ok(()) => {
                self.told = wanted.map(|device_dns| Told { device_dns, instance });
                self.again = None;
            }
            Err(why) => {
                // Most hosts don't have it, which isn't worth reporting.
                if instance.is_some() {
                    tracing::warn!("systemd-resolved's queries don't go through the tunnel: {why}");
                }
                self.again = Some(now + PAUSE);
            }
        }
    }

    /// Whether its queries go through the tunnel.
    pub fn is_told(&self) -> bool {
        self.told.is_some()
    }
}

/// While no peer answers, the tunnel's servers can't be reached: other devices' are used, unless
/// everything must go through the tunnel.
fn wanted(config: &Config, working: bool) -> Option<DeviceDns> {
    let routing = &config.routing;
    let servers = routing.dns.clone().unwrap_or_default();
    if routing.leave_host_alone || servers.is_empty() {
        return None;
    }
    let all = routing.default_route && (working || kill_switch::is_wanted(config));
    let some = routing.dns_domains.iter().map(|name| format!("~{}", name.as_str()));
    let domains: Vec<String> = all.then(|| "~.".to_owned()).into_iter().chain(some).collect();
    (!domains.is_empty()).then_some(DeviceDns { servers, domains })
}

fn tell(device: &str, wanted: &DeviceDns) -> Result<(), String> {
    let servers: Vec<String> = wanted.servers.iter().map(ToString::to_string).collect();
    let command = |first: &[&str], rest: &[String]| -> Result<(), String> {
        let rest = rest.iter().map(String::as_str);
        ask(&first.iter().copied().chain(rest).collect::<Vec<_>>())
    };
    without_multicast(device);
    command(&["dns", device], &servers)?;
    command(&["domain", device], &wanted.domains)?;
    let all = wanted.domains.iter().any(|domain| domain == "~.");
    ask(&["default-route", device, if all { "yes" } else { "no" }])
}

/// With LLMNR and multicast DNS it would resolve LAN names over the tunnel, and answer there for
/// this host. `revert` undoes that, too.
fn without_multicast(device: &str) {
    for protocol in ["llmnr", "mdns"] {
        if let Err(why) = ask(&[protocol, device, "no"]) {
            // Name resolution works without.
            tracing::debug!("can't switch off {protocol} on {device}: {why}");
        }
    }
}

fn ask(arguments: &[&str]) -> Result<(), String> {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let done = tool::does(Path::new("resolvectl"), &arguments, ANSWERS);
    done.unwrap_or_else(|error| Err(said(&error)))
}

fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "resolvectl is not installed".to_owned(),
        _ => format!("resolvectl: {error}"),
    }
}

fn instance() -> Option<Instance> {
    let found = fs::metadata(SOCKET).ok()?;
    Some((found.ino(), found.ctime()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(routing: &str, working: bool) -> Option<Vec<String>> {
        let text = format!(
            "[interface]\nprivate_key_file = \"key\"\naddresses = [\"10.77.0.2/24\"]\n[routing]\n\
             {routing}\n[[link]]\nname = \"dsl\"\ninterface = \"dsl\"\n[[peer]]\nname = \"vps\"\n\
             public_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
             endpoints = [\"192.0.2.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n"
        );
        let config = Config::parse(&text, Path::new("/etc/braid/braid.toml")).unwrap();
        wanted(&config, working).map(|wanted| wanted.domains)
    }

    #[test]
    fn all_names_are_asked_through_a_tunnel_that_carries_all() {
        let all = "default_route = true\ndns = [\"9.9.9.9\"]";
        assert_eq!(domains(all, true), Some(vec!["~.".to_owned()]));
        assert_eq!(domains(all, false), None);
        let strict = format!("{all}\nwhen_concentrator_gone = \"block\"");
        assert_eq!(domains(&strict, false), Some(vec!["~.".to_owned()]));
        assert_eq!(domains("default_route = true", true), None, "it has no servers of its own");
    }

    #[test]
    fn some_names_are_asked_through_it_whatever_else_it_carries() {
        let some = "dns = [\"10.77.0.1\"]\ndns_domains = [\"Corp.example\"]";
        for working in [true, false] {
            assert_eq!(domains(some, working), Some(vec!["~corp.example".to_owned()]));
        }
        let both = format!("default_route = true\n{some}");
        let expected = ["~.", "~corp.example"].map(str::to_owned).to_vec();
        assert_eq!(domains(&both, true), Some(expected));
    }
}
