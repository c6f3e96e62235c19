use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_manual::serve::Server;
use clap::Args;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
#[command(after_help = "\
It runs until interrupted. Other hosts can reach it only at an address other than 127.0.0.1.

Examples:
  braid manual serve site
  braid manual serve site --listen 192.0.2.7:8080")]
pub struct Serve {
    #[command(flatten)]
    _json: JsonFlag,
    /// The site's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
}

impl Serve {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        if !self.folder.join("index.html").is_file() {
            let folder = self.folder.display();
            return Err(Failure::failed(format!(
                "{folder} has no index.html; `braid manual build FILE --out {folder}` makes it"
            )));
        }
        let runtime = tokio::runtime::Runtime::new()
            .map_err(|error| Failure::io("starting the server's threads", &error))?;
        let doing = format!("listening at {}", self.listen);
        runtime.block_on(async {
            let failed = |error: io::Error| Failure::io(&doing, &error);
            let server = Server::bind(&self.folder, self.listen).await.map_err(failed)?;
            let address = server.address().map_err(failed)?;
            let url = format!("http://{address}/");
            global.print(&json!({ "url": url }), || format!("serving {url}"))?;
            let mut ended = signal(SignalKind::terminate()).map_err(failed)?;
            let stop = async {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = ended.recv() => {}
                }
            };
            server.run(stop).await;
            Ok(())
        })
    }
}
