//! The concentrator's end: sends and reads what homes ask for, within bounds.

use crate::load;
use crate::request::{LONGEST, Request};
use ipnet::IpNet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Listens until it is dropped.
pub struct Server {
    stop: Arc<AtomicBool>,
    at: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

/// Maximum concurrent connections; a measurement uses five.
const MOST: usize = 16;
/// A client silent for this long is gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it checks whether to stop.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes sent and read per call.
const PIECE: usize = 64 * 1024;

impl Server {
    /// Listens on these addresses for clients from `homes`; connections from others are closed.
    ///
    /// # Errors
    /// When no thread can be started, or it can't listen on any of the addresses.
    pub fn start(addresses: &[SocketAddr], homes: Vec<IpNet>) -> io::Result<Server> {
        let stop = Arc::new(AtomicBool::new(false));
        let (homes, open) = (Arc::new(homes), Arc::new(AtomicUsize::new(0)));
        let mut server = Server { stop: stop.clone(), at: Vec::new(), threads: Vec::new() };
        let mut trouble = None;
        for address in addresses {
            let listener = match TcpListener::bind(address) {
                Ok(listener) => listener,
                Err(error) => {
                    trouble = Some(error);
                    continue;
                }
            };
            listener.set_nonblocking(true)?;
            server.at.push(listener.local_addr()?);
            let door = Door { stop: stop.clone(), homes: homes.clone(), open: open.clone() };
            let thread = std::thread::Builder::new().name("braid-speed".into());
            server.threads.push(thread.spawn(move || door.keep(&listener))?);
        }
        match trouble.filter(|_| server.at.is_empty()) {
            Some(trouble) => Err(trouble),
            None => Ok(server),
        }
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.at
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// Accepts connections.
struct Door {
    stop: Arc<AtomicBool>,
    homes: Arc<Vec<IpNet>>,
    open: Arc<AtomicUsize>,
}

impl Door {
    fn keep(&self, listener: &TcpListener) {
        while !self.stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, from)) if self.is_home(from.ip()) => self.let_in(stream),
                // A stranger: the connection is closed.
                Ok(_) => {}
                // No connection is pending, or no file descriptor is left for it.
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    fn is_home(&self, from: IpAddr) -> bool {
        self.homes.iter().any(|network| network.contains(&from))
    }

    fn let_in(&self, stream: TcpStream) {
        if self.open.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (open, stop) = (self.open.clone(), self.stop.clone());
        let thread = std::thread::Builder::new().name("braid-speed".into());
        let started = thread.spawn(move || {
            // A client that hangs up early has what it wanted.
            let _ = serve(stream, &stop);
            open.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = read_line(&mut stream)?.as_deref().and_then(Request::parse) else {
        return Ok(());
    };
    match request {
        Request::Down(lasts) => send(&mut stream, lasts, stop)?,
        Request::Up { lasts, warm } => {
            let (bytes, time) = receive(&mut stream, lasts, warm, stop)?;
            stream.write_all(format!("{bytes} {}\n", time.as_micros()).as_bytes())?;
        }
        Request::Load(lasts) => {
            if let Some(load) = load::over(lasts) {
                stream.write_all(format!("{load:.3}\n").as_bytes())?;
            }
        }
    }
    stream.shutdown(Shutdown::Write)
}

/// The first line, without its end.
fn read_line(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST && stream.read(&mut byte)? == 1 {
        match byte {
            [b'\n'] => return Ok(String::from_utf8(line).ok()),
            [byte] => line.push(byte),
        }
    }
    Ok(None)
}

fn send(stream: &mut TcpStream, lasts: Duration, stop: &AtomicBool) -> io::Result<()> {
    let (began, piece) = (Instant::now(), vec![0x5a; PIECE]);
    while began.elapsed() < lasts && !stop.load(Ordering::Relaxed) {
        stream.write_all(&piece)?;
    }
    Ok(())
}

/// How many bytes came after the first `warm`, and in what time.
fn receive(
    stream: &mut TcpStream,
    lasts: Duration,
    warm: Duration,
    stop: &AtomicBool,
) -> io::Result<(u64, Duration)> {
    let (began, mut piece) = (Instant::now(), vec![0; PIECE]);
    let (mut bytes, mut from, mut until) = (0, None, began);
    // Data in flight when the client stops may need longer.
    while began.elapsed() < lasts + PATIENCE && !stop.load(Ordering::Relaxed) {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            break;
        }
        until = Instant::now();
        match from {
            None if began.elapsed() >= warm => from = Some(until),
            None => {}
            Some(_) => bytes += read as u64,
        }
    }
    Ok((bytes, from.map_or(Duration::ZERO, |from| until - from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Direction, load_of, measure};

    const TIME: Duration = Duration::from_millis(300);

    fn server(homes: &str) -> (Server, SocketAddr) {
        let homes = vec![homes.parse().unwrap()];
        let server = Server::start(&["127.0.0.1:0".parse().unwrap()], homes).unwrap();
        let at = server.addresses()[0];
        (server, at)
    }

    #[test]
    fn both_directions_and_the_processors_are_measured() {
        let (_server, at) = server("127.0.0.0/8");
        for direction in [Direction::Down, Direction::Up] {
            let rate = measure(at, direction, 2, TIME).unwrap();
            assert!(rate.mbit > 1.0, "{rate:?}");
        }
        assert!(load_of(at, TIME).is_ok());
    }

    #[test]
    fn strangers_and_strange_requests_get_nothing() {
        let (_server, at) = server("10.0.0.0/8");
        assert!(measure(at, Direction::Down, 1, TIME).is_err());
        let (_server, at) = server("127.0.0.0/8");
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // Reset or ended: nothing comes.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }

    #[test]
    fn no_more_are_let_in_than_there_are_places() {
        let (_server, at) = server("127.0.0.0/8");
        let waiting: Vec<TcpStream> = (0..MOST).map(|_| TcpStream::connect(at).unwrap()).collect();
        // Connections are accepted in order: this one comes after them.
        assert!(measure(at, Direction::Down, 1, TIME).is_err());
        drop(waiting);
    }
}
