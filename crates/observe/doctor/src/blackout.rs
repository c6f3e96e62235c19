use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Replaces keys, addresses and names in a text. The same address or name gets the same stand-in
/// everywhere, so that one can still see what belongs together.
#[derive(Debug, Default)]
pub struct Blackout {
    names: Vec<String>,
    stand_ins: BTreeMap<String, String>,
}

/// Base64 of 32 bytes.
const KEY_CHARS: usize = 44;
/// Shorter names are words such as "me", and may be part of others.
const LEAST_NAME: usize = 3;

impl Blackout {
    /// Also black out this name, wherever it occurs.
    pub fn name(&mut self, name: &str) {
        if name.len() >= LEAST_NAME && name != "localhost" {
            self.names.push(name.to_owned());
            // A name that is part of another comes later.
            self.names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        }
    }

    /// The text with stand-ins.
    pub fn applied(&mut self, text: &str) -> String {
        let mut shown = text.to_owned();
        for name in self.names.clone() {
            let stand_in = self.stand_in("name", &name);
            shown = shown.replace(&name, &stand_in);
        }
        let mut result = String::with_capacity(shown.len());
        let mut word = String::new();
        for c in shown.chars() {
            if is_of_word(c) {
                word.push(c);
                continue;
            }
            result += &self.word(&word);
            word.clear();
            result.push(c);
        }
        result + &self.word(&word)
    }

    /// Replaces a run of characters that can occur in addresses, keys, URLs and mail addresses.
    fn word(&mut self, word: &str) -> String {
        if let Some((scheme, rest)) = word.split_once("://") {
            // Preceding characters belong to something else.
            let scheme: String =
                scheme.chars().rev().take_while(char::is_ascii_alphanumeric).collect();
            let scheme: String = scheme.chars().rev().collect();
            return format!("{scheme}://{}", self.stand_in("url", rest));
        }
        if word.contains("braid-join:") {
            return "[join line]".to_owned();
        }
        if let Some(at) = word.find('@')
            && at > 0
            && at + 1 < word.len()
        {
            return self.stand_in("mail", word);
        }
        if is_key(word) {
            return self.stand_in("key", word);
        }
        let (body, dots) = trimmed(word);
        match self.address(body) {
            Some(address) => format!("{address}{dots}"),
            None => word.to_owned(),
        }
    }

    /// `192.0.2.1`, `192.0.2.1/24`, `192.0.2.1:51900`, `2001:db8::1`, `00:11:22:33:44:55`.
    fn address(&mut self, word: &str) -> Option<String> {
        if is_hardware(word) {
            return Some(self.stand_in("mac", word));
        }
        let (address, rest) = match word.split_once('/') {
            Some((address, length)) => (address, format!("/{length}")),
            None => (word, String::new()),
        };
        if let Ok(address) = address.parse::<IpAddr>() {
            return Some(self.ip(address) + &rest);
        }
        let (address, port) = word.rsplit_once(':')?;
        let number: IpAddr = address.parse().ok().filter(IpAddr::is_ipv4)?;
        port.chars().all(|c| c.is_ascii_digit()).then(|| format!("{}:{port}", self.ip(number)))
    }

    fn ip(&mut self, address: IpAddr) -> String {
        let is_plain = address.is_unspecified()
            || address.is_loopback()
            || address == IpAddr::V4(Ipv4Addr::BROADCAST)
            || address == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        match is_plain {
            true => address.to_string(),
            false => {
                // The kind of an address identifies nobody.
                let kind = match address {
                    IpAddr::V4(v4) if v4.is_private() => "private-ipv4",
                    IpAddr::V4(_) => "ipv4",
                    IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local-ipv6",
                    IpAddr::V6(_) => "ipv6",
                };
                self.stand_in(kind, &address.to_string())
            }
        }
    }

    fn stand_in(&mut self, kind: &str, original: &str) -> String {
        let number = self.stand_ins.len() + 1;
        let fresh = || format!("[{kind} {number}]");
        self.stand_ins.entry(original.to_owned()).or_insert_with(fresh).clone()
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || ".:/@+=_-?&%~#".contains(c)
}

/// Splits off punctuation after the word.
fn trimmed(word: &str) -> (&str, &str) {
    let body = word.trim_end_matches(['.', ':']);
    // The colons of `fd77::` are part of it.
    match word.strip_suffix("::") {
        Some(_) => (word, ""),
        None => word.split_at(body.len()),
    }
}

fn is_key(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+/".contains(c);
    let body = word.strip_suffix('=');
    word.len() == KEY_CHARS && body.is_some_and(|body| body.chars().all(plain))
}

fn is_hardware(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    let is_byte = |part: &&str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    parts.len() == 6 && parts.iter().all(is_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_addresses_and_names_are_black_and_the_same_ones_alike() {
        let mut blackout = Blackout::default();
        blackout.name("vpn.example.org");
        let text = "endpoints = [\"vpn.example.org:51900\"] peer 203.0.113.7:51900, via 192.168.1.1 \
                    dev eth0; 10.77.0.2/24 fd77::2/64 fe80::1 link 00:11:22:aa:bb:cc at 203.0.113.7. \
                    key hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo= to me@example.org \
                    ntfy = \"https://ntfy.sh/secret\" 127.0.0.1:5190 0.0.0.0/0 12:30:45 mtu 1500";
        let shown = blackout.applied(text);
        for secret in
            ["vpn.", "203.0", "192.168", "10.77", "fd77", "fe80", "aa:bb", "hSDw", "me@", "ntfy.sh"]
        {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        for kept in
            ["127.0.0.1:5190", "0.0.0.0/0", "mtu 1500", "dev eth0", "/24", ":51900", "12:30:45"]
        {
            assert!(shown.contains(kept), "no {kept} in {shown}");
        }
        let of_peer = shown.split(" peer ").nth(1).unwrap().split(':').next().unwrap();
        assert_eq!(shown.matches(of_peer).count(), 2, "{shown}");
    }

    #[test]
    fn any_text_is_taken() {
        let mut blackout = Blackout::default();
        for text in ["", "::", "://", "@", "a@", "é@ü://", ":::::", "1.2.3.4:", "[::1]:80"] {
            blackout.applied(text);
        }
    }
}
