//! Where backups go, as restic's users write it.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use url::Url;

/// No list of a target is behind for longer.
pub(crate) const LONGEST_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// A place for backups.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A folder on this computer.
    Folder(PathBuf),
    /// A bucket of an S3 server.
    S3 {
        /// The server.
        endpoint: Url,
        /// The bucket.
        bucket: String,
        /// What all names begin with, without slashes around; may be empty.
        prefix: String,
    },
    /// A folder on a computer that is reached by ssh.
    Sftp {
        /// `[USER@]HOST`
        host: String,
        /// If not the usual one.
        port: Option<u16>,
        /// There; relative to the home folder unless it begins with a slash.
        path: String,
    },
    /// A server that speaks restic's REST protocol; ends with a slash.
    Rest(Url),
}

/// A text that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?}: {why}; write /PATH, s3://HOST/BUCKET[/PREFIX], sftp:[USER@]HOST:PATH or rest:https://HOST/"
)]
pub struct TargetError {
    text: String,
    why: &'static str,
}

const NO_PATH: &str = "the path is missing";

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let parsed = match text.split_once(':') {
            Some(("s3", rest)) => s3(rest),
            Some(("sftp", rest)) => sftp(rest),
            Some(("rest", rest)) => rest_server(rest),
            // Whoever knows restic expects `b2:…` to be far away.
            Some((scheme, _)) if !scheme.contains('/') => Err(
                "this kind of target isn't known, and a folder of such a name is written ./NAME",
            ),
            _ => folder(text),
        };
        // What is wrong may have a password in it.
        parsed.map_err(|why| TargetError { text: text.chars().take(8).collect(), why })
    }
}

fn folder(text: &str) -> Result<Target, &'static str> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("no folder");
    }
    Ok(Target::Folder(text.into()))
}

/// `//HOST/BUCKET/PREFIX`, `HOST/BUCKET/PREFIX`, `https://HOST/BUCKET/PREFIX`, `http://…`.
fn s3(rest: &str) -> Result<Target, &'static str> {
    let (scheme, rest) = match rest.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return Err("only http and https reach an S3 server"),
        None => ("https", rest.trim_start_matches("//")),
    };
    let (host, path) = rest.split_once('/').ok_or("the bucket is missing")?;
    let endpoint = web_url(&format!("{scheme}://{host}/"))?;
    // A backslash, ? or # ends the host in a URL.
    if endpoint.path() != "/" || endpoint.query().is_some() || endpoint.fragment().is_some() {
        return Err("no address of a server");
    }
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    if bucket.is_empty() {
        return Err("the bucket is missing");
    }
    let prefix = prefix.trim_matches('/');
    if prefix.split('/').any(|part| part == "." || part == "..") {
        return Err("the prefix has . or .. in it");
    }
    Ok(Target::S3 { endpoint, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

/// `[USER@]HOST:PATH`, `//[USER@]HOST[:PORT]/PATH`.
fn sftp(rest: &str) -> Result<Target, &'static str> {
    let (host, port, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = rest.split_once('/').ok_or(NO_PATH)?;
            match host.rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => {
                    (host, Some(port.parse().map_err(|_| "wrong port")?), path)
                }
                _ => (host, None, path),
            }
        }
        None => {
            // That of an IPv6 address has colons, in brackets.
            let first = rest.find(':').ok_or(NO_PATH)?;
            let ends = match rest.split_at_checked(first).is_some_and(|(it, _)| it.contains('[')) {
                true => rest.find("]:").map(|at| at + 1),
                false => Some(first),
            };
            let (host, path) = ends.and_then(|at| rest.split_at_checked(at)).ok_or(NO_PATH)?;
            (host, None, path.strip_prefix(':').unwrap_or(path))
        }
    };
    // ssh would take such a host for an option.
    if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
        return Err("wrong host");
    }
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_address = name.parse::<Ipv6Addr>().is_ok();
    if name.is_empty() || host.contains([':', '[', ']', '/']) && !is_address {
        return Err("wrong host");
    }
    if path.is_empty() || path.chars().any(char::is_control) {
        return Err(NO_PATH);
    }
    Ok(Target::Sftp { host: host.to_owned(), port, path: path.to_owned() })
}

fn rest_server(rest: &str) -> Result<Target, &'static str> {
    let mut url = web_url(rest)?;
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(Target::Rest(url))
}

fn web_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "no address of a server")?;
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(host)) if !host.is_empty() => Ok(url),
        _ => Err("no address of a server"),
    }
}

impl Target {
    /// The same from whichever folder it is looked at: records and sheets outlive this one.
    ///
    /// # Errors
    /// The folder that this program is in is gone.
    pub fn absolute(self) -> io::Result<Target> {
        match self {
            Target::Folder(path) => std::path::absolute(path).map(Target::Folder),
            other => Ok(other),
        }
    }

    /// As restic writes it, without a password: for people.
    pub fn shown(&self) -> String {
        match self {
            Target::Rest(url) if url.password().is_some() => {
                let mut url = url.clone();
                // Fails for addresses without a host only.
                let _ = url.set_password(Some("***"));
                format!("rest:{url}")
            }
            other => other.to_restic(),
        }
    }

    /// Whether its lists may lack for a while what was just written, and have what is gone.
    pub(crate) fn lists_may_be_behind(&self) -> bool {
        matches!(self, Target::S3 { .. })
    }

    /// As `restic -r` takes it.
    pub fn to_restic(&self) -> String {
        match self {
            Target::Folder(path) => path.display().to_string(),
            Target::S3 { endpoint, bucket, prefix } => {
                let server = endpoint.as_str().trim_end_matches('/');
                let slash = if prefix.is_empty() { "" } else { "/" };
                format!("s3:{server}/{bucket}{slash}{prefix}")
            }
            Target::Sftp { host, port: None, path } => format!("sftp:{host}:{path}"),
            Target::Sftp { host, port: Some(port), path } => {
                // In a URL the path is relative, unless it begins with another slash.
                format!("sftp://{host}:{port}/{path}")
            }
            Target::Rest(url) => format!("rest:{url}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_restic_does() {
        for (text, restic) in [
            ("/srv/backups", "/srv/backups"),
            ("backups/of:mine", "backups/of:mine"),
            ("./b2:mine", "./b2:mine"),
            ("s3://s3.example.org/photos", "s3:https://s3.example.org/photos"),
            ("s3:s3.example.org/photos/home/", "s3:https://s3.example.org/photos/home"),
            ("s3:http://10.0.0.2:9000/a/b/c", "s3:http://10.0.0.2:9000/a/b/c"),
            ("sftp:me@nas:/backup", "sftp:me@nas:/backup"),
            ("sftp:nas:/a]:b", "sftp:nas:/a]:b"),
            ("sftp://me@nas:2222//backup", "sftp://me@nas:2222//backup"),
            ("sftp://nas/backup", "sftp:nas:backup"),
            ("sftp:me@[2001:db8::1]:/backup", "sftp:me@[2001:db8::1]:/backup"),
            ("sftp://[2001:db8::1]:2222//backup", "sftp://[2001:db8::1]:2222//backup"),
            ("rest:https://nas:8000/mine", "rest:https://nas:8000/mine/"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_restic(), restic);
            assert_eq!(restic.parse::<Target>().unwrap(), target, "{restic}");
        }
    }

    #[test]
    fn what_is_none_says_why_without_telling_a_password() {
        for text in [
            "",
            "s3://host",
            "s3://host/",
            "s3:ftp://host/bucket",
            "s3:http://host\\/bucket",
            "s3:http://host?x/bucket",
            "s3://host/bucket/../other",
            "sftp:nas",
            "sftp:-oProxyCommand=x:/y",
            "sftp://:]/a",
            "sftp:a[b:/y",
            "sftp://me@/y",
            "rest:nas",
            "b2://bucket/x",
            "b2:bucket:x",
            "rclone:remote:x",
            "nas:/backup",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let error = "rest:ftp://me:secret@nas/".parse::<Target>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        let shown = "rest:https://me:secret@nas/".parse::<Target>().unwrap().to_string();
        assert!(!shown.contains("secret") && shown.contains("me:***@nas"), "{shown}");
    }

    proptest::proptest! {
        /// What is read is written as restic takes it, and read again as the same.
        #[test]
        fn any_text_is_read(
            kind in "(s3:|sftp:|rest:|)(http://|https://|//|)",
            rest in "[a-z@:/.\\[\\]%0-9 -]{0,30}",
            text: String,
        ) {
            for text in [format!("{kind}{rest}"), format!("{kind}{text}"), text] {
                if let Ok(target) = text.parse::<Target>() {
                    let again = target.to_restic();
                    proptest::prop_assert_eq!(again.parse::<Target>(), Ok(target), "{}", again);
                }
            }
        }
    }
}
