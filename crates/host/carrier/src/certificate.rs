//! The concentrator's certificate: given by the user, or self-signed.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A certificate with its key.
#[derive(Debug)]
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read, or contains no certificate or key.
    #[error("{file}: {error}")]
    File {
        /// Which.
        file: String,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// A certificate couldn't be created.
    #[error("making a certificate: {0}")]
    Made(#[from] rcgen::Error),
    /// Key and certificate don't match, or are of an unsupported kind.
    #[error("can't use the certificate: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Ten years, like Debian's `ssl-cert`.
const VALID_DAYS: u64 = 3650;
const DAY_S: u64 = 24 * 3600;

/// A newly created certificate, as PEM.
pub struct Made {
    /// The certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

impl Certificate {
    /// Reads PEM files: the chain, with the server's own certificate first, and the key.
    ///
    /// # Errors
    /// [`CertificateError::File`].
    pub fn read(chain: &Path, key: &Path) -> Result<Certificate, CertificateError> {
        let of = |file: &Path| {
            let file = file.display().to_string();
            move |error| CertificateError::File { file, error }
        };
        let read = CertificateDer::pem_file_iter(chain).map_err(of(chain))?;
        let chain = read.collect::<Result<Vec<_>, _>>().map_err(of(chain))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(of(key))?;
        Ok(Certificate { chain, key })
    }

    /// Creates a self-signed certificate like those of many appliances, for these names and
    /// addresses (the first is the subject), valid from the day of `now` for [`VALID_DAYS`]. It
    /// contains nothing by which an Internet-wide scan could identify Braid.
    ///
    /// # Errors
    /// [`CertificateError::Made`]; one of `names` can't be in a certificate.
    pub fn make(names: &[String], now: SystemTime) -> Result<Made, CertificateError> {
        let own = names.first().map_or("localhost", String::as_str);
        let mut params = match names {
            [] => CertificateParams::new([own.to_owned()])?,
            names => CertificateParams::new(names)?,
        };
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, own);
        let days = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY_S;
        let day = |days: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(days * DAY_S);
        (params.not_before, params.not_after) = (day(days), day(days + VALID_DAYS));
        let key = KeyPair::generate()?;
        Ok(Made { chain: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> Option<String> {
        let hash = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?.common.hash_provider;
        let hash = hash.hash(self.chain.first()?.as_ref());
        let bytes: Vec<String> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        Some(bytes.join(":"))
    }

    /// A TLS configuration like a web server's.
    ///
    /// # Errors
    /// [`CertificateError::Unusable`].
    pub fn server(self) -> Result<Arc<ServerConfig>, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain, self.key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The readable text of a certificate: it contains its names verbatim.
    fn contents(made: &Made) -> String {
        let der = CertificateDer::from_pem_slice(made.chain.as_bytes()).unwrap();
        der.iter().map(|byte| char::from(*byte)).collect()
    }

    #[test]
    fn what_is_made_says_whose_it_is_and_not_what_made_it() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_000_000);
        let made = Certificate::make(&["vpn.example.org".into(), "192.0.2.7".into()], now).unwrap();
        let text = contents(&made);
        assert!(
            text.contains("vpn.example.org") && text.contains("261118") && !text.contains("rcgen")
        );
        assert!(text.contains("361115"), "ten years with three leap days");
        assert!(contents(&Certificate::make(&[], now).unwrap()).contains("localhost"));
        // A clock that was never set.
        assert!(Certificate::make(&[], UNIX_EPOCH).is_ok());
    }
}
