use super::super::failure::{self, Failure};
use braid_control::client::Client;
use braid_control::config::Config;
use braid_control::join_line::JoinLine;
use braid_control::status::{PathState, PeerStatus, Status, Traffic};
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// Long enough for a modem that has to dial.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(250);
/// After the answer, traffic is moved into the tunnel at the next check of the host, which happens
/// each second.
const SETTLING: Duration = Duration::from_secs(3);

/// Waits until the concentrator, called `name` in the config, answers; returns the links over which
/// it does. The token is useless then.
pub fn wait(line: &JoinLine, config: &Config, name: &str) -> Result<Vec<String>, Failure> {
    let client = Client::new(&config.interface.control).for_config(&config.file);
    failure::tell(&format!("waiting for an answer from the concentrator at {}", endpoints(line)));
    let give_up = Instant::now() + PATIENCE;
    let mut answered = None;
    loop {
        let status = client.status()?;
        let peer = status.peers.iter().find(|peer| peer.name == name);
        let connected = peer.filter(|peer| peer.connected);
        let settles = match (connected, &status.traffic) {
            (Some(_), Some(Traffic::Direct { .. } | Traffic::Blocked)) => {
                answered.get_or_insert_with(Instant::now).elapsed() < SETTLING
            }
            _ => false,
        };
        if let Some(peer) = connected.filter(|_| !settles) {
            if let Some(file) = config.peer(name).and_then(|it| it.enrolment_key_file.as_ref()) {
                // It is useless now, and a service may not be allowed to remove it.
                let _ = braid_durable::remove(file);
            }
            return Ok(working_links(peer));
        }
        if let Some(trouble) = peer.and_then(|peer| peer.trouble.as_ref()) {
            return Err(Failure::failed(trouble.clone()));
        }
        if Instant::now() >= give_up {
            return Err(Failure::failed(no_answer(line, &status, Timestamp::now())));
        }
        std::thread::sleep(LOOK);
    }
}

fn working_links(peer: &PeerStatus) -> Vec<String> {
    let works = |state| matches!(state, PathState::Active | PathState::Standby);
    let paths = peer.paths.iter().filter(|path| works(path.state));
    let mut links: Vec<String> = paths.map(|path| path.link.clone()).collect();
    links.dedup();
    links
}

fn endpoints(line: &JoinLine) -> String {
    let endpoints: Vec<String> = line.endpoints.iter().map(ToString::to_string).collect();
    let tls = line.fallback_port.map(|port| format!(", or by TLS at its port {port}"));
    format!("{} (UDP){}", endpoints.join(", "), tls.unwrap_or_default())
}

fn no_answer(line: &JoinLine, status: &Status, now: Timestamp) -> String {
    let mut lines = vec![format!(
        "no answer within {} s. The tunnel keeps trying; `braid status` shows whether it succeeds. \
         Perhaps:",
        PATIENCE.as_secs()
    )];
    for link in &status.links {
        if let Some(trouble) = &link.trouble {
            lines.push(format!("  - link {}: {trouble}", link.name));
        }
    }
    let ports: Vec<String> =
        line.endpoints.iter().map(|endpoint| format!("UDP port {}", endpoint.port)).collect();
    let port = ports.first().cloned().unwrap_or_default();
    lines.push(format!(
        "  - {port} is blocked at the concentrator (its firewall or its provider's), or no tunnel \
         is running there"
    ));
    if line.fallback_port.is_none() {
        lines.push(
            "  - this network blocks UDP: a concentrator with `listen_tls` can be reached by TLS, \
             too, and its join lines say so"
                .to_owned(),
        );
    }
    match line.until < now {
        true => lines.push(format!(
            "  - the join line has expired: it was valid until {}; on the concentrator: `braid \
             concentrator renew {}`",
            line.until, line.name
        )),
        false => lines.push(format!(
            "  - the join line was revoked: `braid concentrator list` there shows it; it would be \
             valid until {}",
            line.until
        )),
    }
    lines.join("\n")
}
