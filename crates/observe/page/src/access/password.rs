//! The file with the passwords' hashes: a line for each role.

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use braid_control::request::UiRole;
use std::io;
use std::path::{Path, PathBuf};

/// Why a password can't be set or checked.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The system refused.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is too short.
    #[error("a password has at least {LEAST} characters")]
    Short,
    /// It is too long.
    #[error("a password has at most {MOST} bytes")]
    Long,
    /// Hashing it failed.
    #[error("hashing the password: {0}")]
    Hash(argon2::password_hash::Error),
}

/// Minimum length: NIST SP 800-63B, section 3.1.1.2, asks for 15 for a password alone; 8 are enough
/// where attempts are limited, as here.
const LEAST: usize = 8;
const MOST: usize = 1024;
/// Maximum size of the file, bytes.
const MOST_FILE: u64 = 4096;

/// 19 MiB, 2 passes, 1 lane: the minimum in OWASP's Password Storage Cheat Sheet, which a small
/// router can bear.
fn argon2() -> Argon2<'static> {
    let params = Params::new(19 * 1024, 2, 1, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// Sets a role's password.
///
/// # Errors
/// [`PasswordError`]; the file then stays unchanged.
pub fn set(file: &Path, role: UiRole, password: &str) -> Result<(), PasswordError> {
    if password.chars().count() < LEAST {
        return Err(PasswordError::Short);
    }
    if password.len() > MOST {
        return Err(PasswordError::Long);
    }
    let mut salt = [0; 16];
    let io_error = |error| PasswordError::Io { file: file.to_owned(), error };
    getrandom::fill(&mut salt).map_err(|error| io_error(io::Error::other(error.to_string())))?;
    let salt = SaltString::encode_b64(&salt).map_err(PasswordError::Hash)?;
    let hash = argon2().hash_password(password.as_bytes(), &salt).map_err(PasswordError::Hash)?;
    let mut lines: Vec<String> = read(file).map_err(io_error)?;
    lines.retain(|line| of_role(line, role).is_none());
    lines.push(format!("{}:{hash}", role.as_str()));
    let text = lines.join("\n") + "\n";
    braid_durable::replace(file, text.as_bytes(), Some(0o600)).map_err(io_error)
}

/// Whether this is the role's password. Takes equally long if the role has none.
///
/// # Errors
/// [`PasswordError::Io`] when the file can't be read.
pub fn is_right(file: &Path, role: UiRole, password: &str) -> Result<bool, PasswordError> {
    let lines = read(file).map_err(|error| PasswordError::Io { file: file.to_owned(), error })?;
    let hash = lines.iter().find_map(|line| of_role(line, role));
    let parsed = hash.and_then(|hash| PasswordHash::new(hash).ok());
    if password.len() > MOST {
        return Ok(false);
    }
    match parsed {
        Some(parsed) => Ok(argon2().verify_password(password.as_bytes(), &parsed).is_ok()),
        None => {
            let mut wasted = [0; 32];
            // Only to spend the same time.
            let _ = argon2().hash_password_into(password.as_bytes(), &[0; 16], &mut wasted);
            Ok(false)
        }
    }
}

/// Whether any role has a password.
pub fn is_any_set(file: &Path) -> bool {
    read(file).is_ok_and(|lines| !lines.is_empty())
}

/// When it was last written, for noticing changes.
pub fn written(file: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(file).and_then(|found| found.modified()).ok()
}

fn of_role(line: &str, role: UiRole) -> Option<&str> {
    line.strip_prefix(role.as_str())?.strip_prefix(':')
}

fn read(file: &Path) -> io::Result<Vec<String>> {
    let text = match braid_durable::read_text(file, MOST_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn each_role_has_its_own_and_nobody_else_reads_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ui.password");
        let right = |role, password| is_right(&file, role, password).unwrap();
        assert!(!right(UiRole::Admin, ""));
        set(&file, UiRole::Admin, "correct horse").unwrap();
        set(&file, UiRole::Reader, "battery staple").unwrap();
        assert!(right(UiRole::Admin, "correct horse") && right(UiRole::Reader, "battery staple"));
        assert!(!right(UiRole::Admin, "battery staple") && !right(UiRole::Reader, "correct horse"));
        set(&file, UiRole::Admin, "another one").unwrap();
        assert!(right(UiRole::Admin, "another one") && !right(UiRole::Admin, "correct horse"));
        assert!(right(UiRole::Reader, "battery staple"));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("admin:$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn short_ones_are_refused_and_broken_hashes_let_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ui.password");
        assert!(matches!(set(&file, UiRole::Admin, "1234567"), Err(PasswordError::Short)));
        assert!(matches!(set(&file, UiRole::Admin, &"x".repeat(2000)), Err(PasswordError::Long)));
        for text in ["admin:", "admin:x", "admin", "admin:$argon2id$v=19$m=1,t=1,p=1$$", ":"] {
            std::fs::write(&file, text).unwrap();
            assert!(!is_right(&file, UiRole::Admin, "").unwrap(), "{text}");
            assert!(!is_right(&file, UiRole::Admin, "x").unwrap(), "{text}");
        }
    }
}
