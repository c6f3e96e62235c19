use crate::locking::{Held, LockingFiles};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use tokio::runtime::Runtime;

/// Who may use it.
pub const KEY: &str = "AKIDTEST";
/// What proves it.
pub const SECRET: &str = "a secret for tests";

/// An S3 server in this process; buckets are folders.
pub struct S3Server {
    /// Where it listens.
    pub address: SocketAddr,
    held: Held,
    _runtime: Runtime,
}

impl S3Server {
    /// Serves `folder`, with a bucket `backups` in it.
    ///
    /// # Panics
    /// It can't be started.
    pub fn start(folder: &Path) -> S3Server {
        S3Server::at(folder, "127.0.0.1")
    }

    /// As [`S3Server::start`], on a free port of this address.
    ///
    /// # Panics
    /// It can't be started.
    pub fn at(folder: &Path, host: &str) -> S3Server {
        S3Server::serving(folder, host, |files, _| S3ServiceBuilder::new(files))
    }

    /// As [`S3Server::start`], and its bucket has object lock.
    ///
    /// # Panics
    /// It can't be started.
    pub fn locking(folder: &Path) -> S3Server {
        let at = folder.to_owned();
        S3Server::serving(folder, "127.0.0.1", |files, held| {
            S3ServiceBuilder::new(LockingFiles { files, held, folder: at })
        })
    }

    /// Objects of the bucket with the ends of their locks.
    pub fn lock_ends(&self) -> BTreeMap<String, jiff::Timestamp> {
        self.held.ends()
    }

    /// Has all locks end so many days earlier, as if they had gone by.
    pub fn age_locks(&self, days: i64) {
        self.held.age(days);
    }

    /// From now on, or no more, the lock of this object can't be changed.
    pub fn stick_lock(&self, key: &str, sticks: bool) {
        self.held.stick(key, sticks);
    }

    fn serving(
        folder: &Path,
        host: &str,
        serve: impl FnOnce(FileSystem, Held) -> S3ServiceBuilder,
    ) -> S3Server {
        std::fs::create_dir_all(folder.join("backups")).unwrap();
        let held = Held::default();
        let mut builder = serve(FileSystem::new(folder).unwrap(), held.clone());
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind((host, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    // A client that goes away is no failure of the server's.
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        S3Server { address, held, _runtime: runtime }
    }
}
