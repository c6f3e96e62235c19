use std::fs;

/// A user that servers run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// The first of these users that exists.
    pub(crate) fn find(names: &[&str]) -> Option<Account> {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        names.iter().find_map(|name| passwd.lines().find_map(|line| parse(line, name)))
    }
}

/// `name:x:uid:gid:…` (passwd(5)).
fn parse(line: &str, wanted: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| *name == wanted)?;
    let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Account { name: name.to_owned(), uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name() {
        let line = "mysql:x:105:109:MySQL Server,,,:/nonexistent:/bin/false";
        let account = parse(line, "mysql").unwrap();
        assert_eq!((account.uid, account.gid), (105, 109));
        assert_eq!(parse(line, "root"), None);
        assert_eq!(parse("mysql:x:many", "mysql"), None);
        assert_eq!(Account::find(&["nobody-has-this-name", "root"]).unwrap().uid, 0);
    }
}
