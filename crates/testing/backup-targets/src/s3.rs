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

/// The access key.
pub const KEY: &str = "AKIDTEST";
/// The secret key.
pub const SECRET: &str = "a secret for tests";

/// An S3 server in this process; buckets are folders.
pub struct S3Server {
    /// Where it listens.
    pub address: SocketAddr,
    held: Held,
    _runtime: Runtime,
}

impl S3Server {
    /// Serves `folder`, which contains a bucket `backups`.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(folder: &Path) -> S3Server {
        S3Server::at(folder, "127.0.0.1")
    }

    /// Like [`S3Server::start`], on a free port of this address.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn at(folder: &Path, host: &str) -> S3Server {
        S3Server::serving(folder, host, |files, _| S3ServiceBuilder::new(files))
    }

    /// Like [`S3Server::start`], with object lock on its bucket.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn locking(folder: &Path) -> S3Server {
        let at = folder.to_owned();
        S3Server::serving(folder, "127.0.0.1", |files, held| {
            S3ServiceBuilder::new(LockingFiles { files, held, folder: at })
        })
    }

    /// The bucket's objects and when their locks end.
    pub fn lock_ends(&self) -> BTreeMap<String, jiff::Timestamp> {
        self.held.ends()
    }

    /// Makes all locks end this many days earlier, as if that time had passed.
    pub fn age_locks(&self, days: i64) {
        self.held.age(days);
    }

    /// Sets whether this object's lock can't be changed.
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
                    // A client that disconnects is not the server's failure.
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        S3Server { address, held, _runtime: runtime }
    }
}
