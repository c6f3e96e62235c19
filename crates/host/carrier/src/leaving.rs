use crate::proxy::Proxy;
use crate::socket;
use braid_linux::udp::Family;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// How the connections of a link leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Bind to this device.
    pub device: Option<String>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Firewall mark.
    pub fwmark: Option<u32>,
    /// IP version.
    pub family: Family,
    /// Proxy to use if the direct way is blocked.
    pub proxy: Option<Proxy>,
}

impl Leaving {
    pub(crate) async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if let Some(mark) = self.fwmark {
            socket.set_mark(mark)?;
        }
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(source) = self.source.filter(|source| source.is_ipv4() == to.is_ipv4()) {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket::set_up(&socket)?;
        TcpSocket::from_std_stream(socket.into()).connect(to).await
    }

    /// Connects to `to` through the proxy, over the link.
    pub(crate) async fn connect_by(&self, proxy: &Proxy, to: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = self.connect(proxy.address(to.is_ipv4()).await?).await?;
        proxy.ask(&mut stream, to).await?;
        Ok(stream)
    }
}
