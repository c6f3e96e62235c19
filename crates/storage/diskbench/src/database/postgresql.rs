use super::{Commands, program};
use crate::account::Account;
use crate::error::BenchError;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian keeps the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

pub(super) fn commands(
    data: &Path,
    socket: &Path,
    _user: &Account,
) -> Result<Commands, BenchError> {
    let folders = folders();
    let (data, socket) = (data.as_os_str(), socket.as_os_str());
    let words = |program: OsString, rest: &[&str]| -> Vec<OsString> {
        std::iter::once(program).chain(rest.iter().map(OsString::from)).collect()
    };
    let with = |mut words: Vec<OsString>, option: &str, value: &std::ffi::OsStr| {
        words.extend([option.into(), value.to_owned()]);
        words
    };
    let trusting = ["--username=bench", "--auth=trust", "--encoding=UTF8", "--locale=C"];
    let initialize = with(words(program(&["initdb"], &folders)?, &trusting), "-D", data);
    let serve = words(program(&["postgres"], &folders)?, &["-c", "listen_addresses="]);
    let serve = with(with(serve, "-D", data), "-k", socket);
    let quiet = ["--no-psqlrc", "--quiet", "--tuples-only", "--set=ON_ERROR_STOP=1", "-U", "bench"];
    let client = with(words(program(&["psql"], &folders)?, &quiet), "-h", socket);
    let client = with(client, "-d", "postgres".as_ref());
    let client = client.into_iter().chain([OsString::from("-f")]).collect();
    Ok(Commands { initialize, serve, client, read_file: |path| path.as_os_str().to_owned() })
}

/// The newest version first.
fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(VERSIONS).into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.split('.').next()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, folder)| folder).collect()
}
