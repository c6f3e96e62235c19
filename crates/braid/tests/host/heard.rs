//! Rules for names, and clients that ask nobody whom the home knows: they say the server's name
//! when they begin a connection, by TLS or by QUIC.

use crate::ruled::{BY_WAN1, RULES, TUNNEL, V4, V6, ruled_world, start, whoami};
use crate::world::{World, assert_unchanged, settled_state};
use braid_linux::netns::NetNs;
use rcgen::CertifiedKey;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, Name, Packet, QTYPE, ResourceRecord, TYPE};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

/// A client's first datagram to `bank.example`.
const QUIC: &[u8] = include_bytes!("../../../host/server-name/tests/bank.example.quic");
/// By TCP there, nothing else is done with it.
const DOH: &str = "192.0.2.53:443";

#[test]
fn rules_for_names_hold_for_who_asks_by_https() {
    let Some((mut world, lan)) = ruled_world() else { return };
    if world.internet.command("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: curl is not installed (try ./setup)");
        return;
    }
    world.in_internet("ip addr add 192.0.2.53/32 dev lo");
    answer_by_https(&world);
    let rules = RULES.replace(
        "to = [\"192.0.2.1\", \"2001:db8:ffff::1\"], protocol = \"tcp\", ports = \"443\"",
        "domain = \"bank.example\"",
    );
    let rules = rules.split("[[rule]]\nname = \"shadowed\"").next().unwrap();
    let before = settled_state(&world.home.namespace);
    start(&mut world, "", rules);
    let home = world.home.namespace.run(NetNs::current).unwrap().unwrap();
    curl(&lan, "--doh-url https://192.0.2.53/ --doh-insecure https://other.example/");
    assert_eq!(whoami(&lan, V4, 443).unwrap(), TUNNEL, "another name");
    curl(&lan, "--doh-url https://192.0.2.53/ --doh-insecure https://www.bank.example/");
    world.home.wait_until("it is heard which server was asked for", || {
        whoami(&lan, V4, 443).unwrap() == BY_WAN1
    });
    assert_eq!(whoami(&home, V4, 443).unwrap(), TUNNEL, "it is the client's own word");
    // This host, and IPv6.
    curl(&home, &format!("--resolve bank.example:443:{V4} https://bank.example/"));
    curl(&lan, &format!("--resolve bank.example:443:{V6} https://bank.example/"));
    world.home.wait_until("the others are heard", || {
        whoami(&home, V4, 443).unwrap() == BY_WAN1 && whoami(&lan, V6, 443).unwrap() == "fd00:1::2"
    });
    let asked = ["explain", "192.0.2.1:443", "--from", "tablet", "--json"];
    let explained: serde_json::Value =
        serde_json::from_slice(&world.home.braid_ok(&asked)).unwrap();
    assert_eq!(explained["answer"]["rule"], "bank");
    // By QUIC, to an address that nobody named yet.
    world.in_internet("ip addr add 192.0.2.99/32 dev lo");
    crate::ruled::serve(&world.internet, "192.0.2.99:443");
    assert_eq!(whoami(&lan, "192.0.2.99", 443).unwrap(), TUNNEL);
    world.home.wait_until("what is said by QUIC is heard", || {
        let datagram = || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.send_to(QUIC, "192.0.2.99:443")
        };
        lan.run(datagram).unwrap().unwrap();
        whoami(&lan, "192.0.2.99", 443).unwrap() == BY_WAN1
    });
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
}

/// Its server knows no TLS: what matters is what it says first.
fn curl(namespace: &NetNs, arguments: &str) {
    let mut curl = namespace.command("curl");
    curl.args(["--silent", "--insecure", "--max-time", "20"]).args(arguments.split_whitespace());
    curl.output().unwrap();
}

/// A resolver that is asked by HTTPS (RFC 8484), for which each name has one address.
fn answer_by_https(world: &World) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["192.0.2.53".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.into()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = world.internet.run(|| TcpListener::bind(DOH).unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let config = config.clone();
            std::thread::spawn(move || answer_questions(stream, config));
        }
    });
}

fn answer_questions(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut question = vec![0; length];
        stream.read_exact(&mut question)?;
        let answer = answer(&question);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\nContent-Length:";
        write!(stream.get_mut(), "{head} {}\r\n\r\n", answer.len())?;
        stream.get_mut().write_all(&answer)?;
        stream.get_mut().flush()?;
    }
}

fn answer(question: &[u8]) -> Vec<u8> {
    let question = Packet::parse(question).unwrap();
    let mut answer = Packet::new_reply(question.id());
    for asked in &question.questions {
        answer.questions.push(asked.clone());
        if asked.qtype == QTYPE::TYPE(TYPE::A) {
            let name = Name::new_unchecked(&asked.qname.to_string()).into_owned();
            let address = RData::A(A { address: 0xc000_0201 });
            answer.answers.push(ResourceRecord::new(name, CLASS::IN, 60, address));
        }
    }
    answer.build_bytes_vec().unwrap()
}
