//! The concentrator's certificate: one that was given, or one of its own.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// A certificate with its key.
#[derive(Debug)]
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read, or has no certificate or key in it.
    #[error("{file}: {error}")]
    File {
        /// Which.
        file: String,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// None could be made.
    #[error("making a certificate: {0}")]
    Made(#[from] rcgen::Error),
    /// Key and certificate don't fit each other, or are of a kind that isn't known.
    #[error("the certificate can't be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// A certificate that was made, as PEM.
pub struct Made {
    /// The certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

impl Certificate {
    /// Of PEM files: the chain, its own certificate first, and the key.
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

    /// A new one that only this concentrator vouches for, as those of many appliances.
    /// What [`Self::read`] reads.
    ///
    /// # Errors
    /// [`CertificateError::Made`].
    pub fn make(addresses: &[IpAddr]) -> Result<Made, CertificateError> {
        let mut names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        if names.is_empty() {
            names.push("localhost".to_owned());
        }
        let made = rcgen::generate_simple_self_signed(names)?;
        Ok(Made { chain: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> Option<String> {
        let hash = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?.common.hash_provider;
        let hash = hash.hash(self.chain.first()?.as_ref());
        let bytes: Vec<String> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        Some(bytes.join(":"))
    }

    /// TLS as web servers speak it.
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
