use crate::secret;
use crate::words::foreign;
use braid_alert::{Message, Security, Target};
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{SmtpTransport, Transport};
use std::time::Duration;

/// Timeout for each answer of the server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a message by SMTP.
pub fn send(target: &Target, message: &Message) -> Result<(), String> {
    let Target::Mail { server, port, security, user, password_file, from, to } = target else {
        return Err("this is not an e-mail alert".into());
    };
    let mail = mail(from, to, message)?;
    let parameters = || TlsParameters::new(server.clone()).map_err(|error| words(&error));
    let tls = match security {
        Security::Starttls => Tls::Required(parameters()?),
        Security::Tls => Tls::Wrapper(parameters()?),
        Security::None => Tls::None,
    };
    let mut transport = SmtpTransport::builder_dangerous(server.as_str())
        .port(*port)
        .hello_name(ClientId::Domain(host_name(&message.host)))
        .timeout(Some(PATIENCE))
        .tls(tls);
    if let (Some(user), Some(file)) = (user, password_file) {
        transport = transport.credentials(Credentials::new(user.clone(), secret::read(file)?));
    }
    transport.build().send(&mail).map(drop).map_err(|error| words(&error))
}

fn mail(from: &str, to: &[String], message: &Message) -> Result<lettre::Message, String> {
    let mailbox = |text: &str| -> Result<Mailbox, String> {
        text.parse().map_err(|error| format!("{text}: {error}"))
    };
    // A repeated message has the same ID, so that servers can drop the copy.
    let id = format!("<{}.braid@{}>", message.id, host_name(&message.host));
    let mut mail = lettre::Message::builder()
        .from(mailbox(from)?)
        .subject(message.title())
        .message_id(Some(id))
        .header(ContentType::TEXT_PLAIN);
    for address in to {
        mail = mail.to(mailbox(address)?);
    }
    mail.body(format!("{}\n", message.text())).map_err(|error| error.to_string())
}

/// A host name that SMTP accepts.
fn host_name(host: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let name: String = host.chars().filter(plain).take(200).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

/// The libraries' errors carry their reason in `source`.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        inner = error.source();
    }
    foreign(&text)
}
