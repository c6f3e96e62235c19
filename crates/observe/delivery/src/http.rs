use crate::secret;
use crate::words::foreign;
use braid_alert::Message;
use braid_history::Severity;
use serde::Serialize;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

/// Timeout from the name look-up to the answer's headers.
const DEADLINE: Duration = Duration::from_secs(20);
/// How much of an error answer is quoted, bytes.
const TOLD_OF_ANSWER: u64 = 400;
/// Maximum size of an answer's headers.
const MOST_HEADERS: usize = 16 * 1024;

/// Posts JSON; only a 2xx answer counts as success. Redirections aren't followed: they could send a
/// secret elsewhere.
pub fn post(url: &str, token_file: Option<&Path>, body: &impl Serialize) -> Result<(), String> {
    let token = token_file.map(secret::read).transpose()?;
    let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    let mut request = agent(url).post(url).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = request.send(&body[..]).map_err(|error| told(&error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    if status.is_redirection() {
        return Err(format!(
            "it answers {status}, a redirect: configure the address that it leads to"
        ));
    }
    let mut text = Vec::new();
    // Quote what was received, even if the answer broke off.
    let _ = answer.into_body().into_reader().take(TOLD_OF_ANSWER).read_to_end(&mut text);
    Err(format!("it answers {status}: {}", foreign(&String::from_utf8_lossy(&text))))
}

/// The URL and body for an ntfy server, which accepts messages at its root.
pub fn ntfy(url: &str, message: &Message) -> Result<(String, impl Serialize + use<>), String> {
    let (server, topic) = url.trim_end_matches('/').rsplit_once('/').ok_or("no topic")?;
    let (priority, tag) = match message.severity {
        Severity::Note => (3, "information_source"),
        Severity::Warning => (4, "warning"),
        Severity::Critical => (5, "rotating_light"),
    };
    let body = NtfyBody {
        topic: topic.to_owned(),
        title: message.title(),
        message: shortened(message.text()),
        priority,
        tags: [tag],
    };
    Ok((format!("{server}/"), body))
}

/// <https://docs.ntfy.sh/publish/#publish-as-json>
#[derive(Serialize)]
struct NtfyBody {
    topic: String,
    title: String,
    message: String,
    priority: u8,
    tags: [&'static str; 1],
}

/// Longer messages become an attachment (4096 bytes: <https://docs.ntfy.sh/publish/#limitations>).
fn shortened(mut text: String) -> String {
    const MOST: usize = 3800;
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

fn agent(url: &str) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(DEADLINE))
        .max_redirects(0)
        .max_response_header_size(MOST_HEADERS)
        .http_status_as_error(false)
        .user_agent(concat!("braid/", env!("CARGO_PKG_VERSION")));
    // Skip reading the host's certificates, which takes a while.
    if !url.starts_with("https:") {
        return config.build().into();
    }
    let certificates = rustls_native_certs::load_native_certs().certs;
    let certificates = certificates.iter().map(|der| Certificate::from_der(der).to_owned());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::from(certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    config.tls_config(tls).build().into()
}

fn told(error: &Error) -> String {
    match error {
        Error::Timeout(_) => format!("no answer within {} s", DEADLINE.as_secs()),
        Error::HostNotFound => "its name doesn't resolve".to_owned(),
        Error::Io(error) => error.to_string(),
        other => foreign(&other.to_string()),
    }
}
