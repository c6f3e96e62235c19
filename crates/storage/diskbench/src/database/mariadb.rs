use super::{Commands, program};
use crate::account::Account;
use crate::error::BenchError;
use std::ffi::OsString;
use std::path::Path;

pub(super) fn commands(data: &Path, socket: &Path, user: &Account) -> Result<Commands, BenchError> {
    let option = |name: &str, path: &Path| {
        let mut word = OsString::from(name);
        word.push(path);
        word
    };
    let data = option("--datadir=", data);
    let socket = option("--socket=", &socket.join("server"));
    let as_user = OsString::from(format!("--user={}", user.name));
    let words =
        |program: OsString, rest: &[OsString]| [&[program, "--no-defaults".into()], rest].concat();
    let initialize = words(
        program(&["mariadb-install-db", "mysql_install_db"], &[])?,
        &[data.clone(), as_user.clone(), "--auth-root-authentication-method=normal".into()],
    );
    let serve = words(
        program(&["mariadbd", "mysqld"], &[])?,
        &[
            data,
            socket.clone(),
            as_user,
            "--skip-networking".into(),
            "--skip-log-bin".into(),
            // A larger pool hides the disks if the data fits into it; here it always does.
            "--innodb-buffer-pool-size=64M".into(),
            "--innodb-flush-method=O_DIRECT".into(),
        ],
    );
    let client = words(
        program(&["mariadb", "mysql"], &[])?,
        // The database that every new server has.
        &[
            socket,
            "--user=root".into(),
            "--database=test".into(),
            "--batch".into(),
            "--skip-column-names".into(),
            "--execute".into(),
        ],
    );
    Ok(Commands { initialize, serve, client, read_file: |path| option_source(path) })
}

fn option_source(path: &Path) -> OsString {
    let mut word = OsString::from("source ");
    word.push(path);
    word
}
