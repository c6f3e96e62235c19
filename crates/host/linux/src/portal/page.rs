//! Finds a captive portal's page in an HTTP answer.

use std::net::{IpAddr, Ipv6Addr};

/// A portal's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its URL.
    pub url: String,
    /// The host in it: a name or an address.
    pub host: String,
}

/// Longest URL that is passed on.
const LONGEST: usize = 300;

/// The portal's page, from an answer for `asked`, an address where no server exists (RFC 5737, RFC
/// 3849), so the network itself has answered. An error status comes from a proxy on the way.
pub fn wanted(answer: &[u8], asked: IpAddr) -> Option<Page> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.lines();
    let status: u16 = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let host = match asked {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let here = || Page { url: format!("http://{host}/"), host: host.clone() };
    match status {
        // RFC 6585, section 6.
        200 | 511 => Some(here()),
        301 | 302 | 303 | 307 | 308 => {
            let location = lines.take_while(|line| !line.is_empty()).find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case("location").then(|| value.trim())
            })?;
            Some(page(location).unwrap_or_else(here))
        }
        _ => None,
    }
}

/// `None` if it is only a path.
fn page(location: &str) -> Option<Page> {
    let (scheme, rest) = location.split_once("://")?;
    let known = ["http", "https"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority.rsplit('@').next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let host = match place.strip_prefix('[') {
        Some(rest) => {
            let (v6, _) = rest.split_once(']')?;
            v6.parse::<Ipv6Addr>().ok().map(|_| format!("[{v6}]"))
        }
        None => place.split(':').next().filter(|host| host.chars().all(plain)).map(str::to_owned),
    }?;
    // It is printed to terminals and logs.
    let printable = location.chars().all(|c| c.is_ascii_graphic());
    let good = known && !host.is_empty() && printable;
    (good && location.len() <= LONGEST).then(|| Page { url: location.to_owned(), host })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(answer: &str) -> Option<(String, String)> {
        let page = wanted(answer.as_bytes(), [192, 0, 2, 1].into())?;
        Some((page.url, page.host))
    }

    fn both(url: &str, host: &str) -> Option<(String, String)> {
        Some((url.to_owned(), host.to_owned()))
    }

    #[test]
    fn who_sends_elsewhere_wants_a_login_there() {
        let sent =
            |location: &str| found(&format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n"));
        let url = "https://login.hotel.example:8443/?mac=1";
        assert_eq!(sent(url), both(url, "login.hotel.example"));
        assert_eq!(sent("http://[fd00::1]/a"), both("http://[fd00::1]/a", "[fd00::1]"));
        assert_eq!(sent("http://a@10.0.0.1/"), both("http://a@10.0.0.1/", "10.0.0.1"));
        let here = both("http://192.0.2.1/", "192.0.2.1");
        for odd in
            ["/login", "ftp://a/", "http://a b/", "http://\u{1b}[0m/", "http://", "http://[fd00::1"]
        {
            assert_eq!(sent(odd), here, "{odd}");
        }
        assert_eq!(found("HTTP/1.1 511 Network Authentication Required\r\n\r\n<html>"), here);
        assert_eq!(found("HTTP/1.0 200 OK\r\n\r\nWelcome"), here);
    }

    #[test]
    fn a_proxy_that_finds_nobody_is_no_portal() {
        for other in ["", "HTTP/1.1 504 Gateway Timeout\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/1.1 é"] {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(found("HTTP/1.1 302 Found\r\n\r\nLocation: http://a/"), None, "in the body");
    }

    proptest::proptest! {
        #[test]
        fn anything_is_read(answer: Vec<u8>, rest: String) {
            wanted(&answer, [192, 0, 2, 1].into());
            found(&format!("HTTP/1.1 302 Found\r\nLocation: http://{rest}\r\n\r\n"));
        }
    }
}
