use super::failure::{Failure, FailureKind};
use super::{Global, JsonFlag};
use braid_control::config::write_secret;
use braid_handshake::{PrivateKey, os_random};
use clap::Args;
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;
use zeroize::Zeroizing;

#[derive(Args)]
#[command(after_help = "Example:\n  braid keygen --out /etc/braid/home.key")]
pub struct Keygen {
    #[command(flatten)]
    _json: JsonFlag,
    /// Write the key to this new file (mode 0600) and print the public key
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid pubkey < /etc/braid/home.key")]
pub struct Pubkey {
    #[command(flatten)]
    _json: JsonFlag,
}

impl Keygen {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let key = PrivateKey::generate(&mut os_random());
        let public = key.public_key().to_string();
        let Some(out) = &self.out else {
            let private = key.to_base64();
            let value = json!({ "private_key": *private, "public_key": public });
            return global.print(&value, || private.to_string());
        };
        write_secret(out, &key.to_base64())
            .map_err(|error| Failure::io(&format!("writing {}", out.display()), &error))?;
        global.print(&json!({ "file": out.display().to_string(), "public_key": public }), || {
            public.clone()
        })
    }
}

impl Pubkey {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut text = Zeroizing::new(String::new());
        // A key has 44 characters.
        std::io::stdin()
            .take(4096)
            .read_to_string(&mut text)
            .map_err(|error| Failure::io("reading the private key from stdin", &error))?;
        let key: PrivateKey = text.parse().map_err(|error| {
            Failure::new(FailureKind::Config, format!("the private key on stdin: {error}"))
        })?;
        let public = key.public_key().to_string();
        global.print(&json!({ "public_key": public }), || public.clone())
    }
}
