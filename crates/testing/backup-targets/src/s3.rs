use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
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
    _runtime: Runtime,
}

impl S3Server {
    /// Serves `folder`, with a bucket `backups` in it.
    ///
    /// # Panics
    /// It can't be started.
    pub fn start(folder: &Path) -> S3Server {
        std::fs::create_dir_all(folder.join("backups")).unwrap();
        let files = FileSystem::new(folder).unwrap();
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
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
        S3Server { address, _runtime: runtime }
    }
}
