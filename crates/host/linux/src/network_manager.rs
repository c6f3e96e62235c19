//! What NetworkManager, if it runs, reports about interfaces: the connection active on each, and
//! whether it is metered.

use crate::tool;
use std::io;
use std::path::Path;
use std::time::Duration;

/// An active connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The interface that has its addresses.
    pub interface: String,
    /// Its name (`GENERAL.CONNECTION`).
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Whether its traffic is paid for by the byte, as set by the user or guessed by NetworkManager
    /// (for phones).
    pub metered: bool,
}

/// Whether it runs on this host.
pub fn runs() -> bool {
    Path::new(RUNS).exists()
}

/// A folder that it creates when it starts (`NMRUNDIR`).
const RUNS: &str = "/run/NetworkManager";

/// The connections active now; empty if NetworkManager doesn't run.
///
/// # Errors
/// `NotFound` without nmcli, `TimedOut` when it doesn't answer.
pub fn active() -> io::Result<Vec<Connection>> {
    let rest = ["--terse", "--escape", "no", "--fields", FIELDS, "device", "show"];
    let arguments = [&NMCLI[..], &rest].concat();
    tool::said("env", &arguments, ANSWERS).map(|text| connections_in(&text))
}

/// Arguments of `env`: nmcli's output must not be translated, and in the locale C it prints ? for
/// é.
pub const NMCLI: [&str; 3] = ["LANGUAGE=", "LC_ALL=C.UTF-8", "nmcli"];
const FIELDS: &str =
    "GENERAL.DEVICE,GENERAL.IP-IFACE,GENERAL.CONNECTION,GENERAL.CON-UUID,GENERAL.METERED";
/// It answers within some 10 ms, even under load.
const ANSWERS: Duration = Duration::from_secs(2);
/// Maximum number of connections; a host has far fewer.
pub const MOST: usize = 1000;

/// Parses nmcli's output.
pub fn connections_in(text: &str) -> Vec<Connection> {
    let mut found: Vec<Connection> = Vec::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let is_full = found.len() == MOST;
        match (key, found.last_mut()) {
            ("GENERAL.DEVICE", _) if is_full => break,
            ("GENERAL.DEVICE", _) => {
                found.push(Connection { interface: value.to_owned(), ..Connection::default() });
            }
            // For a modem, which is not itself an interface.
            ("GENERAL.IP-IFACE", Some(last)) if !value.is_empty() => {
                last.interface = value.to_owned();
            }
            ("GENERAL.CONNECTION", Some(last)) => last.name = value.to_owned(),
            ("GENERAL.CON-UUID", Some(last)) => last.uuid = value.to_owned(),
            // yes, yes (guessed), no, no (guessed), unknown.
            ("GENERAL.METERED", Some(last)) => last.metered = value.starts_with("yes"),
            _ => {}
        }
    }
    found.retain(|connection| !connection.uuid.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_those_of_devices_that_have_one() {
        // As printed by NetworkManager 1.42.
        let text = "GENERAL.DEVICE:wlan0\nGENERAL.IP-IFACE:wlan0\nGENERAL.CONNECTION:Café: 2\n\
            GENERAL.CON-UUID:5f6e\nGENERAL.METERED:yes (guessed)\n\nGENERAL.DEVICE:cdc-wdm0\nGENERAL.IP-IFACE:wwan0\n\
            GENERAL.CONNECTION:Tele\nGENERAL.CON-UUID:77aa\nGENERAL.METERED:no (guessed)\n\nGENERAL.DEVICE:eth0\n\
            GENERAL.IP-IFACE:\nGENERAL.CONNECTION:\nGENERAL.CON-UUID:\n";
        let connection = |interface: &str, name: &str, uuid: &str, metered| Connection {
            interface: interface.into(),
            name: name.into(),
            uuid: uuid.into(),
            metered,
        };
        let expected = [
            connection("wlan0", "Café: 2", "5f6e", true),
            connection("wwan0", "Tele", "77aa", false),
        ];
        assert_eq!(connections_in(text), expected);
    }

    #[test]
    fn errors_and_nonsense_are_no_connections() {
        for text in
            ["", "Error: NetworkManager is not running.\n", "GENERAL.CON-UUID:77aa\n", ":::"]
        {
            assert_eq!(connections_in(text), [], "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn anything_is_read(
            text: String,
            lines in "((GENERAL\\.)?(DEVICE|IP-IFACE|CONNECTION|CON-UUID|METERED|)(:|)[a-z: ]{0,9}\n){0,40}",
        ) {
            connections_in(&text);
            let found = connections_in(&lines);
            assert!(found.len() <= MOST && found.iter().all(|it| !it.uuid.is_empty()));
        }
    }
}
