use super::interface::CertificateFiles;
use super::path;
use super::section::Section;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// `[ui]`: the page for browsers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ui {
    /// Where it is served; `None` if it is off.
    pub listen: Option<SocketAddr>,
    /// The certificate for TLS; `None` if it is served without.
    pub tls: Option<UiCertificate>,
    /// Host names, besides addresses and `localhost`, that browsers may use for it.
    pub hosts: Vec<String>,
    /// Hashes of the passwords that `braid ui password` sets.
    pub password_file: PathBuf,
    /// The Unix socket where it is served as well; by default beside the control socket.
    pub socket: Option<PathBuf>,
    /// The folder of the lab reports to show; by default `reports` in the state folder.
    pub reports: Option<PathBuf>,
}

/// The certificate that browsers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiCertificate {
    /// A self-signed one: browsers ask once whether to trust it.
    Own,
    /// One from these files.
    Files(CertificateFiles),
}

/// The page's default port.
pub const UI_PORT: u16 = 5190;

impl Ui {
    /// The settings without `[ui]`.
    pub fn usual(base: &Path) -> Ui {
        Ui {
            listen: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), UI_PORT)),
            tls: None,
            hosts: Vec::new(),
            password_file: base.join("ui.password"),
            socket: None,
            reports: None,
        }
    }
}

pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Ui {
    let usual = Ui::usual(base);
    let listen = section.parsed_by("listen", |text| match text {
        "off" => Ok(None),
        text => text.parse::<SocketAddr>().map(Some).map_err(|_| {
            format!(
                "{text:?} is not an address and port, such as \"127.0.0.1:{UI_PORT}\", nor \"off\""
            )
        }),
    });
    let hosts = section.list_by("hosts", host_name).unwrap_or_default();
    let password_file = path::file(&mut section, "password_file", base);
    let plain = section.boolean("without_tls").unwrap_or(false);
    let tls = certificate(&mut section, base);
    let listen = listen.unwrap_or(usual.listen);
    if let Some(address) = listen
        && !address.ip().is_loopback()
        && !plain
        && tls.is_none()
    {
        section.wrong(
            "listen",
            format!(
                "ui.listen = \"{address}\" sends passwords and figures unencrypted over the network"
            ),
            "write tls = true, or listen on 127.0.0.1 and connect through ssh -L or a TLS proxy; \
             or accept it with without_tls = true",
        );
    }
    let socket = path::socket(&mut section, "socket", base);
    let reports = path::place(&mut section, "reports", base);
    section.finish();
    Ui {
        listen,
        tls,
        hosts,
        password_file: password_file.unwrap_or(usual.password_file),
        socket,
        reports,
    }
}

fn certificate(section: &mut Section<'_, '_>, base: &Path) -> Option<UiCertificate> {
    let own = section.boolean("tls").unwrap_or(false);
    let chain = path::file(section, "tls_certificate_file", base);
    let key = path::file(section, "tls_key_file", base);
    let hint = "write both tls_certificate_file and tls_key_file, or only tls = true for a \
                certificate of its own";
    match (chain, key) {
        (None, None) => own.then_some(UiCertificate::Own),
        (Some(chain), Some(key)) => Some(UiCertificate::Files(CertificateFiles { chain, key })),
        (Some(_), None) => {
            section.wrong("tls_certificate_file", "ui.tls_certificate_file without its key", hint);
            None
        }
        (None, Some(_)) => {
            section.wrong("tls_key_file", "ui.tls_key_file without its certificate", hint);
            None
        }
    }
}

fn host_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    match !text.is_empty() && text.len() <= 253 && text.chars().all(plain) {
        true => Ok(text.to_ascii_lowercase()),
        false => {
            Err(format!("{text:?} is not a host name, such as \"router.lan\" (without a port)"))
        }
    }
}
