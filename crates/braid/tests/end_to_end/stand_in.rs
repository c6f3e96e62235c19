//! Servers of webhooks and of mail, on one host: good ones and others.

use braid_linux::netns::NetNs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// A server, and what it was told.
pub struct StandIn {
    pub address: SocketAddr,
    pub got: Receiver<String>,
}

/// How a web server answers.
#[derive(Clone)]
pub enum Behaviour {
    Takes,
    Refuses,
    /// Never.
    IsSilent,
    HasEndlessHead,
    HasEndlessBody,
    LeadsTo(String),
    /// This text, whatever is asked.
    Says(String),
}

/// What a mail server does.
#[derive(Clone)]
pub enum Mail {
    Encrypts(Arc<ServerConfig>),
    OffersNoEncryption,
    /// One line that doesn't end.
    IsEndless,
}

impl StandIn {
    pub fn web(namespace: &NetNs, behaviour: Behaviour) -> StandIn {
        StandIn::web_at(namespace, "127.0.0.1:0".parse().unwrap(), behaviour)
    }

    pub fn web_at(namespace: &NetNs, at: SocketAddr, behaviour: Behaviour) -> StandIn {
        serve(namespace, at, move |stream, got| web(stream, got, &behaviour))
    }

    pub fn mail(namespace: &NetNs, mail: Mail) -> StandIn {
        serve(namespace, "127.0.0.1:0".parse().unwrap(), move |stream, got| match &mail {
            Mail::Encrypts(config) => smtp(stream, Some(config), got),
            Mail::OffersNoEncryption => smtp(stream, None, got),
            Mail::IsEndless => {
                let mut stream = stream;
                while stream.write_all(&[b'2'; 65536]).is_ok() {}
            }
        })
    }
}

fn serve(
    namespace: &NetNs,
    at: SocketAddr,
    answer: impl Fn(TcpStream, &Sender<String>) + Send + 'static,
) -> StandIn {
    let listener = namespace.run(|| TcpListener::bind(at)).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let (told, got) = channel();
    // It ends with the test.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &told);
        }
    });
    StandIn { address, got }
}

fn web(stream: TcpStream, got: &Sender<String>, behaviour: &Behaviour) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        head += &line.to_ascii_lowercase();
        line.clear();
    }
    let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
        rest.split_once('\r').map_or(0, |(number, _)| number.parse().unwrap())
    });
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    // Nobody may listen any more.
    let _ = got.send(format!("{head}\n{}", String::from_utf8(body).unwrap()));
    let mut stream = reader.into_inner();
    let _ = match behaviour {
        Behaviour::Takes => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n"),
        Behaviour::Refuses => stream.write_all(
            b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n\x1b[31mno such hook\n",
        ),
        Behaviour::IsSilent => {
            thread::sleep(Duration::from_secs(120));
            Ok(())
        }
        Behaviour::HasEndlessHead => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while stream.write_all(b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").is_ok() {}
            Ok(())
        }
        Behaviour::HasEndlessBody => {
            let _ = stream.write_all(b"HTTP/1.1 500 Oops\r\n\r\n");
            while stream.write_all(&[b'z'; 4096]).is_ok() {}
            Ok(())
        }
        Behaviour::LeadsTo(url) => stream.write_all(
            format!("HTTP/1.1 307 Go On\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n")
                .as_bytes(),
        ),
        Behaviour::Says(text) => stream.write_all(
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n\
                 connection: close\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            )
            .as_bytes(),
        ),
    };
}

/// A certificate for `localhost`, and the file with who has signed it.
pub fn certificate(folder: &std::path::Path) -> (Arc<ServerConfig>, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = folder.join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), file)
}

fn smtp(stream: TcpStream, encrypts: Option<&Arc<ServerConfig>>, got: &Sender<String>) {
    let mut log = String::new();
    let mut stream = stream;
    let _ = stream.write_all(b"220 stand-in\r\n");
    let offers = match encrypts {
        Some(_) => "250-stand-in\r\n250 STARTTLS\r\n",
        None => "250 stand-in\r\n",
    };
    let wants_tls = talk(&mut BufReader::new(&stream), &mut &stream, offers, &mut log);
    if let (true, Some(config)) = (wants_tls, encrypts) {
        log += "ENCRYPTED\n";
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut inside = BufReader::new(StreamOwned::new(connection, stream));
        talk_inside(&mut inside, &mut log);
    }
    let _ = got.send(log);
}

/// Until the client asks for TLS, or ends.
fn talk(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    offers: &str,
    log: &mut String,
) -> bool {
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
        *log += &line;
        let word = line.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
        let answer = match word.as_str() {
            "EHLO" => offers,
            "STARTTLS" => "220 go on\r\n",
            "QUIT" => "221 bye\r\n",
            _ => "250 so be it\r\n",
        };
        let _ = writer.write_all(answer.as_bytes());
        if word == "STARTTLS" {
            return true;
        }
        line.clear();
    }
    false
}

fn talk_inside(stream: &mut BufReader<StreamOwned<ServerConnection, TcpStream>>, log: &mut String) {
    let (mut line, mut in_mail) = (String::new(), false);
    while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        *log += &line;
        let word = line.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
        let answer = match word.as_str() {
            "." => "250 taken\r\n",
            _ if in_mail => "",
            "EHLO" => "250-stand-in\r\n250 AUTH PLAIN\r\n",
            "AUTH" => "235 welcome\r\n",
            "DATA" => "354 go on\r\n",
            "QUIT" => "221 bye\r\n",
            _ => "250 so be it\r\n",
        };
        in_mail = word != "." && (in_mail || word == "DATA");
        let _ = stream.get_mut().write_all(answer.as_bytes());
        line.clear();
    }
}
