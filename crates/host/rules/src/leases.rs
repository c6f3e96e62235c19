use crate::Mac;
use std::net::IpAddr;

/// A DHCP lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The host name that the device sent.
    pub host: String,
    /// Its MAC address; IPv6 leases don't contain it.
    pub mac: Option<Mac>,
    /// Its address.
    pub address: IpAddr,
}

/// Maximum number of leases: more than a /16 has can't be right.
const MOST: usize = 65_536;

/// Reads dnsmasq's file of leases, which is OpenWrt's too: each line has the lease's expiry, the
/// MAC address (for IPv6 the IAID), the address, the name or `*`, and the client's ID. Other lines
/// are skipped.
pub fn read_leases(text: &str) -> Vec<Lease> {
    text.lines().filter_map(lease).take(MOST).collect()
}

fn lease(line: &str) -> Option<Lease> {
    let mut words = line.split_whitespace();
    let (_, hardware, address, host) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let address = address.parse().ok()?;
    // Hardware types other than Ethernet are prefixed to the address: "06-…".
    (host != "*").then(|| Lease { host: host.to_owned(), mac: hardware.parse().ok(), address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dnsmasqs_leases_tell_names_of_both_ip_versions() {
        let text = "1700000000 aa:bb:cc:dd:ee:01 192.168.7.20 tablet 01:aa:bb:cc:dd:ee:01\n\
            1700000000 aa:bb:cc:dd:ee:02 192.168.7.21 * *\n\
            duid 00:01:00:01:2c:aa\n\
            1700000000 7213 fd00:77::20 tablet 00:01:00:01:2c:bb\nnonsense\n\n";
        let leases = read_leases(text);
        let mac = "aa:bb:cc:dd:ee:01".parse().ok();
        let [v4, v6] = leases.as_slice() else { panic!("{leases:?}") };
        assert_eq!((v4.host.as_str(), v4.mac), ("tablet", mac));
        assert_eq!((v6.address, v6.mac), ("fd00:77::20".parse().unwrap(), None));
    }
}
