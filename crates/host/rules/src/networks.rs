//! Files of networks provided by the user.

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use std::net::IpAddr;

/// A row of a table of origins: an address range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// First address.
    pub first: IpAddr,
    /// Last address, of the same IP version.
    pub last: IpAddr,
    /// The autonomous system that announces it; 0 for none.
    pub asn: u32,
    /// The country, two letters (ISO 3166), or whatever the table has instead.
    pub country: String,
}

/// A line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongLine {
    /// Line number, from 1.
    pub line: usize,
    /// Its text, truncated.
    pub text: String,
}

/// Reads one network or address per line. `#` and `;` start a comment.
///
/// # Errors
/// The first line that isn't one.
pub fn read_networks(text: &str) -> Result<Vec<IpNet>, WrongLine> {
    let mut networks = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let net = entry.parse().or_else(|_| entry.parse::<IpAddr>().map(IpNet::from));
        networks.push(net.map_err(|_| wrong(number, line))?.trunc());
    }
    Ok(IpNet::aggregate(&networks))
}

/// Reads a table of origins in the format of iptoasn.com and others: first address, last address,
/// AS number, country, anything else; separated by tabs or commas.
///
/// # Errors
/// The first line in another format.
pub fn read_origins(text: &str) -> Result<Vec<Origin>, WrongLine> {
    let mut origins = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        origins.push(origin(line).ok_or_else(|| wrong(number, line))?);
    }
    Ok(origins)
}

impl Origin {
    /// The networks that it consists of.
    pub fn networks(&self) -> Vec<IpNet> {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Ipv4Subnets::new(first, last, 0).map(IpNet::from).collect()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Ipv6Subnets::new(first, last, 0).map(IpNet::from).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn origin(line: &str) -> Option<Origin> {
    let separator = if line.contains('\t') { '\t' } else { ',' };
    let mut fields = line.split(separator).map(|field| field.trim().trim_matches('"'));
    let (first, last) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let asn = fields.next()?.trim_start_matches("AS").parse().ok()?;
    let country = fields.next()?.to_ascii_uppercase();
    let ordered = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => first <= last,
        (IpAddr::V6(first), IpAddr::V6(last)) => first <= last,
        _ => false,
    };
    ordered.then_some(Origin { first, last, asn, country })
}

fn wrong(line: usize, text: &str) -> WrongLine {
    WrongLine { line, text: text.chars().take(60).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_passed_over_and_wrong_lines_are_told() {
        let text = "# a list\n192.0.2.0/25 ; SBL1\n192.0.2.128/25\n\n2001:db8::1 # one host\n";
        let networks = read_networks(text).unwrap();
        let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["192.0.2.0/24", "2001:db8::1/128"]);
        let wrong = read_networks("192.0.2.0/24\nexample.org\n").unwrap_err();
        assert_eq!((wrong.line, wrong.text.as_str()), (2, "example.org"));
    }

    #[test]
    fn tables_of_origins_have_ranges() {
        let text = "1.0.0.0\t1.0.0.255\t13335\tUS\tCLOUDFLARENET\n\
            1.0.1.0\t1.0.3.255\t0\tNone\tNot routed\n2001:db8::\t2001:db8::f\t64496\tde\tX\n";
        let origins = read_origins(text).unwrap();
        assert_eq!((origins[0].asn, origins[0].country.as_str()), (13335, "US"));
        assert_eq!(origins[1].networks().len(), 2, "a range may be no single network");
        assert_eq!(origins[2].networks(), ["2001:db8::/124".parse().unwrap()]);
        assert_eq!(origins[2].country, "DE");
        assert_eq!(read_origins("\"1.0.0.0\",\"1.0.0.7\",AS7,DE").unwrap()[0].asn, 7);
        for wrong in ["1.0.0.9\t1.0.0.1\t1\tDE", "1.0.0.1\t::1\t1\tDE", "1.0.0.1", "a\tb\tc\td"] {
            assert_eq!(read_origins(wrong).unwrap_err().line, 1, "{wrong}");
        }
    }
}
