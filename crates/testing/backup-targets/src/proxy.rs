use crate::behind::Writes;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A client's request.
pub struct Request {
    /// Number of earlier requests.
    pub number: u64,
    /// `GET`, …
    pub method: String,
    /// The path, with the query.
    pub path: String,
}

/// A fault applied to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No fault.
    None,
    /// The proxy answers this itself; the server doesn't see the request.
    Answer(u16, &'static str),
    /// The connection breaks after half of the request.
    CutRequest,
    /// The server carries it out, but the client gets no answer.
    CutAnswer,
    /// The answer's body and the connection end in the middle.
    Truncate,
    /// One byte of the answer's body is changed.
    Damage,
    /// The answer says that the clocks differ; the server's is this many seconds ahead.
    Skewed(i64),
    /// The answer's ETag is wrong.
    WrongEtag,
    /// Nothing after the request's head is read or answered, though the connection stays.
    Hang,
    /// Half of the answer's body comes, then nothing, though the connection stays.
    HangMidway,
    /// The answer is delayed by this.
    Slow(Duration),
    /// A list is outdated by this many writes and removals that went through here.
    Behind(usize),
}

/// An HTTP proxy in front of a server, with one request per connection, which applies the given
/// fault to each.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    count: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts one in front of `server`.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(
        server: SocketAddr,
        fault: impl Fn(&Request) -> Fault + Send + Sync + 'static,
    ) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let (fault, counting) = (Arc::new(fault), Arc::clone(&count));
        let writes = Arc::new(Writes::default());
        // Open for as long as it listens.
        let hanging = Arc::new(Mutex::new(vec![]));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (fault, counting) = (Arc::clone(&fault), Arc::clone(&counting));
                let (writes, hanging) = (Arc::clone(&writes), Arc::clone(&hanging));
                thread::spawn(move || {
                    // Broken connections are its purpose.
                    let _ = pass(client, server, &*fault, &counting, &writes, &hanging);
                });
            }
        });
        Proxy { address, count }
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

fn pass(
    mut client: TcpStream,
    server: SocketAddr,
    fault: &dyn Fn(&Request) -> Fault,
    count: &AtomicU64,
    writes: &Writes,
    hanging: &Mutex<Vec<TcpStream>>,
) -> io::Result<()> {
    let (head, mut body) = read_head(&mut client)?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let mut words = first.split(' ').map(str::to_owned);
    let request = Request {
        number: count.fetch_add(1, Ordering::Relaxed),
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
    };
    let headers: Vec<&str> = lines.filter(|line| !is(line, "connection")).collect();
    let length = headers.iter().find_map(|line| value(line, "content-length")?.parse().ok());
    let length: usize = length.unwrap_or(0);
    let fault = fault(&request);
    if fault == Fault::Hang {
        hanging.lock().unwrap().push(client);
        return Ok(());
    }
    if let Fault::Slow(time) = fault {
        thread::sleep(time);
    }
    let sent = if fault == Fault::CutRequest { length / 2 } else { length };
    let mut piece = vec![0; 64 * 1024];
    while body.len() < length {
        let got = client.read(&mut piece)?;
        if got == 0 {
            return Ok(());
        }
        body.extend_from_slice(&piece[..got]);
    }
    if let Fault::Answer(status, text) = fault {
        let answer = format!(
            "HTTP/1.1 {status} No\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        return client.write_all(answer.as_bytes());
    }
    if let Fault::Skewed(ahead) = fault {
        let text = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
        let answer = format!(
            "HTTP/1.1 403 No\r\ndate: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
            date(ahead),
            text.len()
        );
        return client.write_all(answer.as_bytes());
    }
    let mut upstream = TcpStream::connect(server)?;
    let head = format!("{first}\r\n{}\r\nconnection: close\r\n\r\n", headers.join("\r\n"));
    upstream.write_all(head.as_bytes())?;
    upstream.write_all(&body[..sent])?;
    if fault == Fault::CutRequest {
        return Ok(());
    }
    let mut answer = vec![];
    upstream.read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 2") {
        writes.note(&request.method, &request.path, length);
    }
    if fault == Fault::CutAnswer {
        return Ok(());
    }
    spoil(&mut answer, &fault, &request, writes);
    client.write_all(&answer)?;
    if fault == Fault::HangMidway {
        hanging.lock().unwrap().push(client);
    }
    Ok(())
}

/// Applies a fault to an answer.
fn spoil(answer: &mut Vec<u8>, fault: &Fault, request: &Request, writes: &Writes) {
    let body_at = answer.windows(4).position(|it| it == b"\r\n\r\n").map_or(0, |at| at + 4);
    let body_length = answer.len() - body_at;
    match *fault {
        Fault::Behind(count) if request.path.contains("list-type=2") => {
            let list = String::from_utf8_lossy(&answer[body_at..]);
            let list = writes.list_before(count, &request.path, &list);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                list.len()
            );
            *answer = [head.into_bytes(), list.into_bytes()].concat();
        }
        Fault::Truncate | Fault::HangMidway => answer.truncate(body_at + body_length / 2),
        Fault::Damage if body_length > 0 => answer[body_at + body_length / 2] ^= 0x55,
        Fault::WrongEtag => {
            let head = String::from_utf8_lossy(&answer[..body_at]).into_owned();
            let lines = head.split("\r\n").map(|line| match is(line, "etag") {
                true => "etag: \"00000000000000000000000000000000\"",
                false => line,
            });
            let head = lines.collect::<Vec<_>>().join("\r\n");
            answer.splice(..body_at, head.into_bytes());
        }
        _ => {}
    }
}

fn read_head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut got = vec![];
    let mut piece = [0; 4096];
    loop {
        if let Some(at) = got.windows(4).position(|it| it == b"\r\n\r\n") {
            let body = got.split_off(at + 4);
            got.truncate(at);
            return Ok((String::from_utf8_lossy(&got).into_owned(), body));
        }
        match client.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => got.extend_from_slice(&piece[..count]),
        }
    }
}

/// A date as HTTP writes it (RFC 9110, section 5.6.7).
fn date(ahead: i64) -> String {
    let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(ahead);
    now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn is(line: &str, header: &str) -> bool {
    value(line, header).is_some()
}

fn value<'a>(line: &'a str, header: &str) -> Option<&'a str> {
    let (name, value) = line.split_once(':')?;
    name.eq_ignore_ascii_case(header).then(|| value.trim())
}
