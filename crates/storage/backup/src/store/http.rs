//! HTTP for S3 and REST servers: the meaning of a status, bodies that are complete or an error,
//! time limits.

use super::StoreError;
use crate::throttle::{PIECE, Throttle};
use crate::time_limits::TimeLimits;
use bytes::Bytes;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};
use url::Url;

/// A slow link's: 128 kbit/s.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 * 1024;
/// An answer may be so much longer than it was expected to be, and what says no may have so much:
/// a server of a stranger's doesn't fill the memory.
const LONGER: u64 = 4;
const LEAST_LIMIT_BYTES: u64 = 1 << 20;
/// How much of a refusal is shown.
const TOLD: usize = 300;

pub(super) struct Http {
    agent: Agent,
    throttle: Arc<Throttle>,
    limits: TimeLimits,
    slowest: u64,
}

pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: ureq::http::HeaderMap,
    pub body: Bytes,
}

/// How the standard library begins what the system says of a name without an address.
const NAMELESS: &str = "failed to lookup address information";

impl Http {
    pub(super) fn new(url: &Url, throttle: Arc<Throttle>, limits: TimeLimits) -> Http {
        let config = Agent::config_builder()
            .timeout_connect(Some(limits.connect))
            .timeout_recv_response(Some(limits.answer))
            // A body's own limit is for slow links: one of 64 MiB would hang for an hour.
            .timeout_per_read(Some(limits.answer))
            .timeout_per_write(Some(limits.answer))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("braid/", env!("CARGO_PKG_VERSION")));
        let agent = match url.scheme() {
            "https" => {
                let certificates = rustls_native_certs::load_native_certs().certs;
                let certificates =
                    certificates.iter().map(|der| Certificate::from_der(der).to_owned());
                let tls = TlsConfig::builder()
                    .root_certs(RootCerts::from(certificates))
                    .unversioned_rustls_crypto_provider(Arc::new(
                        rustls::crypto::ring::default_provider(),
                    ))
                    .build();
                config.tls_config(tls).build().into()
            }
            _ => config.build().into(),
        };
        let slowest = throttle.slowest().unwrap_or(u64::MAX).clamp(1, SLOWEST_BYTES_PER_SECOND);
        Http { agent, throttle, limits, slowest }
    }

    /// Asks, with the request's own headers; the whole answer. `expected` is how long its body may
    /// be, for the time that it may take and for its limit.
    pub(super) fn ask(
        &self,
        method: Method,
        url: &Url,
        headers: &[(&str, String)],
        content: &[Bytes],
        expected: u64,
    ) -> Result<Answer, StoreError> {
        let length = super::total(content) as u64;
        let mut request = Request::builder().method(&method).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let has_body = method == Method::PUT || method == Method::POST;
        let broken = |error: ureq::Error| self.broken(&error);
        let (sending, receiving) = (self.time_for(length), self.time_for(expected));
        let response = if has_body {
            let mut body =
                PacedBody { content: content.to_vec(), throttle: Arc::clone(&self.throttle) };
            let request = request
                .header("content-length", length.to_string())
                .body(SendBody::from_reader(&mut body))
                .map_err(|error| StoreError::Final(error.to_string()))?;
            let request = self
                .agent
                .configure_request(request)
                .timeout_send_body(Some(sending))
                .timeout_recv_body(Some(receiving))
                .build();
            self.agent.run(request).map_err(broken)?
        } else {
            let request = request.body(()).map_err(|error| StoreError::Final(error.to_string()))?;
            let request =
                self.agent.configure_request(request).timeout_recv_body(Some(receiving)).build();
            self.agent.run(request).map_err(broken)?
        };
        self.whole(&method, response, expected.saturating_mul(LONGER).max(LEAST_LIMIT_BYTES))
    }

    /// A body that breaks off is an error, whatever came of it.
    fn whole(
        &self,
        method: &Method,
        response: Response<Body>,
        limit: u64,
    ) -> Result<Answer, StoreError> {
        let (head, body) = response.into_parts();
        let length = head
            .headers
            .get("content-length")
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
            .filter(|_| *method != Method::HEAD);
        let too_long = || StoreError::Final(format!("its answer has more than {limit} bytes"));
        if length.is_some_and(|length| length > limit) {
            return Err(too_long());
        }
        let mut content = Vec::with_capacity(length.unwrap_or(0) as usize);
        let mut reader = body.into_with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; PIECE];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    self.throttle.pass(count);
                    content.extend_from_slice(piece.get(..count).unwrap_or_default());
                    if content.len() as u64 > limit {
                        return Err(too_long());
                    }
                }
                Err(error) => return Err(StoreError::Passing(format!("broken off: {error}"))),
            }
        }
        if length.is_some_and(|length| length != content.len() as u64) {
            return Err(StoreError::Passing("the answer broke off".to_owned()));
        }
        Ok(Answer { status: head.status, headers: head.headers, body: content.into() })
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.limits.body + Duration::from_secs(bytes / self.slowest)
    }

    fn broken(&self, error: &ureq::Error) -> StoreError {
        match error {
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => {
                StoreError::Final(error.to_string())
            }
            ureq::Error::HostNotFound => StoreError::Nameless(error.to_string()),
            ureq::Error::Io(said) if said.to_string().contains(NAMELESS) => {
                StoreError::Nameless(said.to_string())
            }
            other => StoreError::Passing(other.to_string()),
        }
    }
}

impl Answer {
    /// The status, with the beginning of the server's own words.
    pub(super) fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let text: String = text.chars().filter(|c| !c.is_control()).take(TOLD).collect();
        match text.trim() {
            "" => format!("it answers {}", self.status),
            text => format!("it answers {}: {text}", self.status),
        }
    }

    /// What a status other than the wanted ones means.
    pub(super) fn refusal(&self) -> StoreError {
        let said = self.said();
        match self.status.as_u16() {
            404 | 410 => StoreError::Absent,
            416 => StoreError::Damaged("it is too short".to_owned()),
            401 | 403 => StoreError::Final(format!(
                "{said}; are the credentials right, in the environment or {}?",
                crate::secrets::DEFAULT
            )),
            408 | 425 | 429 | 500..=599 => StoreError::Passing(said),
            _ => StoreError::Final(said),
        }
    }
}

/// What is sent, at its pace.
struct PacedBody {
    content: Vec<Bytes>,
    throttle: Arc<Throttle>,
}

impl Read for PacedBody {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.content.first().is_some_and(Bytes::is_empty) {
            self.content.remove(0);
        }
        let Some(first) = self.content.first_mut() else { return Ok(0) };
        let count = first.len().min(into.len()).min(PIECE);
        let piece = first.split_to(count);
        if let Some(into) = into.get_mut(..count) {
            into.copy_from_slice(&piece);
        }
        self.throttle.pass(count);
        Ok(count)
    }
}
