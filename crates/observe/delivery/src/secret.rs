use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// More than any token or password has.
const MOST: u64 = 4096;

/// Reads a secret from a file that not every user can read.
///
/// # Errors
/// In words, with what to do.
pub fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error| format!("{shown}: can't read the secret: {error}");
    let file = File::open(path).map_err(failed)?;
    // Bits of the file that is open, so that it can't be exchanged in between.
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(format!(
            "{shown}: every user of this host can read this secret; run `chmod 600 {shown}`"
        ));
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(failed)?;
    let secret = text.trim();
    if secret.is_empty() || secret.chars().any(char::is_control) {
        return Err(format!("{shown}: there is no secret of one line in it"));
    }
    Ok(secret.to_owned())
}
