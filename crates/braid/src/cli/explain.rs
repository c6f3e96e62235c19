//! `braid explain`: why a connection would go where it goes.

use super::failure::{Failure, FailureKind};
use super::{Global, JsonFlag};
use braid_control::config::{Dscp, Protocol};
use braid_control::request::{ExplainAnswer, ExplainQuery, ExplainedWay};
use clap::Args;
use serde_json::json;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid explain bank.example:443 --from tablet\n  braid explain 203.0.113.7 --protocol udp"
)]
pub struct Explain {
    #[command(flatten)]
    asked: Asked,
}

/// The connection to explain.
#[derive(Args)]
pub struct Asked {
    #[command(flatten)]
    _json: JsonFlag,
    /// The server, by name or address; the port defaults to 443
    #[arg(value_name = "HOST[:PORT]")]
    to: String,
    /// The LAN device that connects: IP address, MAC address or name in its DHCP lease [default:
    /// this host]
    #[arg(long, value_name = "DEVICE")]
    from: Option<String>,
    /// UID of the user whose program on this host connects
    #[arg(long, conflicts_with = "from")]
    uid: Option<u32>,
    /// tcp, udp or icmp
    #[arg(long, default_value = "tcp")]
    protocol: Protocol,
    /// Code point of the DS field, such as ef
    #[arg(long)]
    dscp: Option<Dscp>,
}

const USUAL_PORT: u16 = 443;

impl Explain {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let client = global.client()?;
        for query in self.asked.queries()? {
            tell(global, &query, &client.explain(&query)?)?;
        }
        Ok(())
    }
}

impl Asked {
    /// One query per IP version of the server.
    pub fn queries(&self) -> Result<Vec<ExplainQuery>, Failure> {
        let (host, port) = self.server()?;
        let addresses: Vec<IpAddr> = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => look_up(&host, port)?,
        };
        let [v4, v6] =
            [IpAddr::is_ipv4, IpAddr::is_ipv6].map(|of| addresses.iter().find(|it| of(it)));
        let queries = v4.into_iter().chain(v6).map(|&to| ExplainQuery {
            to,
            port: if self.protocol == Protocol::Icmp { 0 } else { port },
            protocol: self.protocol,
            from: self.from.clone(),
            uid: self.uid,
            dscp: self.dscp.map(Dscp::value),
        });
        Ok(queries.collect())
    }

    fn server(&self) -> Result<(String, u16), Failure> {
        let text = self.to.as_str();
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok((address.ip().to_string(), address.port()));
        }
        if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Ok((text.trim_matches(['[', ']']).to_owned(), USUAL_PORT));
        }
        match text.rsplit_once(':') {
            None => Ok((text.to_owned(), USUAL_PORT)),
            Some((host, port)) => match port.parse() {
                Ok(port) => Ok((host.to_owned(), port)),
                Err(_) => {
                    let what = format!("{port:?} is not a port; write {host}:443");
                    Err(Failure::new(FailureKind::Usage, what))
                }
            },
        }
    }
}

fn look_up(host: &str, port: u16) -> Result<Vec<IpAddr>, Failure> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        Failure::failed(format!("can't look up {host}: {error}; give its address instead"))
    })?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Prints an answer.
pub fn tell(global: &Global, query: &ExplainQuery, answer: &ExplainAnswer) -> Result<(), Failure> {
    let value =
        json!({ "to": query.to, "port": query.port, "protocol": query.protocol, "answer": answer });
    global.print(&value, || {
        let mut lines = vec![match query.port {
            0 => format!("{} ({})", query.to, query.protocol),
            port => format!("{} port {port} ({})", query.to, query.protocol),
        }];
        for considered in &answer.considered {
            let (rule, line) = (&considered.rule, considered.line);
            lines.push(match &considered.mismatch {
                Some(why) => format!("  rule {rule} (line {line}): no, {why}"),
                None => format!("  rule {rule} (line {line}): this one"),
            });
        }
        if answer.rule.is_none() {
            lines.push("  no rule matches".to_owned());
        }
        let goes = [way(&answer.way)].into_iter().chain(answer.treated.iter().cloned());
        lines.push(format!("  {}", goes.collect::<Vec<_>>().join(", ")));
        if let Some(then) = &answer.if_link_died {
            lines.push(format!("  if that link fails: {}", way(then)));
        }
        lines.join("\n")
    })
}

fn way(way: &ExplainedWay) -> String {
    match way {
        ExplainedWay::Tunnel => "takes the tunnel".to_owned(),
        ExplainedWay::Direct { link: Some(link) } => {
            format!("leaves by {link}, bypassing the tunnel")
        }
        ExplainedWay::Direct { link: None } => "takes the host's own routes".to_owned(),
        ExplainedWay::Blocked => "is refused".to_owned(),
    }
}
