//! The page's certificate for TLS.

use super::super::own_certificate;
use braid_carrier::{Certificate, CertificateError};
use braid_control::config::{CertificateFiles, UiCertificate};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use tokio_rustls::TlsAcceptor;

/// How the page is served by TLS.
pub struct Secured {
    /// Accepts TLS connections.
    pub acceptor: TlsAcceptor,
    /// The fingerprint of a self-signed certificate.
    pub fingerprint: Option<String>,
}

impl Secured {
    /// Uses this certificate; a self-signed one is kept at `own`, and created if missing.
    pub fn with(wanted: &UiCertificate, own: &CertificateFiles, at: IpAddr) -> io::Result<Secured> {
        let is_own = *wanted == UiCertificate::Own;
        let files = match wanted {
            UiCertificate::Files(files) => files,
            UiCertificate::Own => own,
        };
        if is_own {
            let named = || (!at.is_unspecified()).then(|| at.to_string()).into_iter().collect();
            own_certificate::ensure(files, named)?;
        }
        let other = |error: CertificateError| io::Error::other(error);
        let certificate = Certificate::read(&files.chain, &files.key).map_err(other)?;
        let fingerprint = certificate.fingerprint().filter(|_| is_own);
        let acceptor = TlsAcceptor::from(certificate.server().map_err(other)?);
        Ok(Secured { acceptor, fingerprint })
    }
}

/// Beside other state.
pub fn own_files(folder: &Path, name: &str) -> CertificateFiles {
    let file = |end: &str| folder.join(format!("{name}.ui.{end}"));
    CertificateFiles { chain: file("pem"), key: file("key") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_has_a_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let own = own_files(folder.path(), "braid0");
        let at = IpAddr::from([192, 168, 1, 1]);
        let first = Secured::with(&UiCertificate::Own, &own, at).unwrap().fingerprint.unwrap();
        assert_eq!(first.split(':').count(), 32);
        let again = Secured::with(&UiCertificate::Own, &own, at).unwrap().fingerprint;
        assert_eq!(again, Some(first));
        // A certificate signed by a CA is identified by its name.
        let given = Secured::with(&UiCertificate::Files(own.clone()), &own, at).unwrap();
        assert_eq!(given.fingerprint, None);
        std::fs::write(&own.key, "nothing").unwrap();
        assert!(Secured::with(&UiCertificate::Own, &own, at).is_err());
    }
}
