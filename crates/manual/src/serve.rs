//! Serves a site over HTTP. Who asks may be anybody: connections are few at a time and not for
//! long, and only files below the site's folder are given.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_http::services::ServeDir;

/// More connections than this at a time wait in the kernel's queue.
const MOST: usize = 64;
/// A connection is closed after so long.
const LONGEST: Duration = Duration::from_secs(60);
/// A request's head comes within so long.
const HEAD: Duration = Duration::from_secs(10);
/// How long a listener that can't accept waits.
const RETRY: Duration = Duration::from_millis(100);

/// A site that is served.
pub struct Server {
    listener: TcpListener,
    site: Router,
}

impl Server {
    /// Listens at `address`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The system's error.
    pub async fn bind(folder: &Path, address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        let site = Router::new().fallback_service(ServeDir::new(folder));
        Ok(Server { listener, site })
    }

    /// Where it listens; the port is the real one where 0 was asked for.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is ready.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(MOST));
        let mut stop = pin!(stop);
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let site = self.site.clone();
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(LONGEST, answer(stream, site)).await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}

/// Who went away needs no answer.
async fn answer(stream: TcpStream, site: Router) {
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(site))
        .await;
}
