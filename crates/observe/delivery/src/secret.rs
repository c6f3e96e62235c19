use braid_durable::SecretError;
use std::path::Path;

/// More than any token or password has.
const MOST: u64 = 4096;

/// Reads a secret from a file that not every user can read.
///
/// # Errors
/// What is wrong and what to do, in words.
pub fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = braid_durable::read_secret(path, MOST).map_err(|error| match error {
        SecretError::Io(error) => format!("{shown}: can't read the secret: {error}"),
        SecretError::Exposed(_) => format!(
            "{shown}: every user of this host can read this secret; run `chmod 600 {shown}`"
        ),
    })?;
    let secret = text.trim();
    if secret.is_empty() || secret.chars().any(char::is_control) {
        return Err(format!("{shown}: it doesn't contain a secret of one line"));
    }
    Ok(secret.to_owned())
}
