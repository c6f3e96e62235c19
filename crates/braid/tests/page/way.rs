//! A way for the browser to the page of a host in a namespace, as `ssh -L` makes one.

use crate::side::Side;
use braid_linux::netns::NetNs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

/// Connections to this address go to the socket, for as long as the test runs.
pub fn to_socket(socket: &Path) -> SocketAddr {
    let socket = PathBuf::from(socket);
    pass_on(move || {
        let far = UnixStream::connect(&socket).ok()?;
        Some((far.try_clone().ok()?, far))
    })
}

/// Connections to this address go to a port of that host.
pub fn to_port(side: &Side, address: &'static str) -> SocketAddr {
    let namespace = side.namespace.run(NetNs::current).unwrap().unwrap();
    pass_on(move || {
        let far = namespace.run(|| TcpStream::connect(address)).ok()?.ok()?;
        Some((far.try_clone().ok()?, far))
    })
}

fn pass_on<S: Read + Write + Send + 'static>(
    connect: impl Fn() -> Option<(S, S)> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut near in listener.incoming().map_while(Result::ok) {
            // Where the daemon is gone the browser sees a connection that ends.
            let Some((mut far, mut far_too)) = connect() else { continue };
            let Ok(mut near_too) = near.try_clone() else { continue };
            thread::spawn(move || io::copy(&mut near, &mut far));
            thread::spawn(move || {
                let _ = io::copy(&mut far_too, &mut near_too);
                let _ = near_too.shutdown(Shutdown::Both);
            });
        }
    });
    address
}
