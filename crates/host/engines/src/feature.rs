//! What an engine needs of the host besides a Linux kernel.

use crate::words::words;

words! {
    /// A part of the kernel, or a program, that an engine needs.
    Feature {
        /// The bonding driver.
        Bonding = "bonding",
        /// The team driver.
        Team = "team",
        /// The TEQL queueing discipline.
        Teql = "teql",
        /// Next-hop objects and groups (Linux 5.3).
        NextHops = "nexthop",
        /// Resilient next-hop groups (Linux 5.13).
        ResilientNextHops = "nexthop-resilient",
        /// Multipath TCP and its path manager (Linux 5.6).
        Mptcp = "mptcp",
        /// PPP over Ethernet.
        Pppoe = "pppoe",
        /// PPP's multilink.
        Multilink = "ppp-multilink",
        /// nftables with connection tracking and NAT.
        Nftables = "nftables",
        /// nftables' `numgen`.
        NftNumgen = "nft-numgen",
        /// nftables' `jhash`.
        NftHash = "nft-hash",
        /// Policy rules.
        PolicyRouting = "policy-routing",
        /// Ethernet in GRE.
        Gretap = "gretap",
        /// Ethernet in UDP.
        Vxlan = "vxlan",
        /// WireGuard.
        WireGuard = "wireguard",
        /// The program teamd.
        Teamd = "teamd",
        /// The program pppd with its PPPoE plugin.
        Pppd = "pppd",
        /// The program pppoe-server.
        PppoeServer = "pppoe-server",
        /// The program nft.
        Nft = "nft",
    }
}

impl Feature {
    /// The kernel module that provides it; `None` for programs.
    pub const fn module(self) -> Option<&'static str> {
        match self {
            Feature::Bonding => Some("bonding"),
            Feature::Team => Some("team"),
            Feature::Teql => Some("sch_teql"),
            Feature::Pppoe => Some("pppoe"),
            Feature::Multilink => Some("ppp_generic"),
            Feature::Nftables => Some("nf_tables"),
            Feature::NftNumgen => Some("nft_numgen"),
            Feature::NftHash => Some("nft_hash"),
            Feature::Gretap => Some("ip_gre"),
            Feature::Vxlan => Some("vxlan"),
            Feature::WireGuard => Some("wireguard"),
            Feature::NextHops
            | Feature::ResilientNextHops
            | Feature::Mptcp
            | Feature::PolicyRouting
            | Feature::Teamd
            | Feature::Pppd
            | Feature::PppoeServer
            | Feature::Nft => None,
        }
    }

    /// The kernel feature that a program needs.
    pub const fn of_kernel(self) -> Option<Feature> {
        match self {
            Feature::Teamd => Some(Feature::Team),
            Feature::Pppd | Feature::PppoeServer => Some(Feature::Pppoe),
            _ => None,
        }
    }

    /// The kernel's build option; `None` for programs.
    pub const fn config(self) -> Option<&'static str> {
        match self {
            Feature::Bonding => Some("CONFIG_BONDING"),
            Feature::Team => Some("CONFIG_NET_TEAM"),
            Feature::Teql => Some("CONFIG_NET_SCH_TEQL"),
            // Part of the network stack since 5.3 and 5.13.
            Feature::NextHops => Some("CONFIG_INET (Linux 5.3 or newer)"),
            Feature::ResilientNextHops => Some("CONFIG_INET (Linux 5.13 or newer)"),
            Feature::Mptcp => Some("CONFIG_MPTCP"),
            Feature::Pppoe => Some("CONFIG_PPPOE"),
            Feature::Multilink => Some("CONFIG_PPP_MULTILINK"),
            Feature::Nftables => Some("CONFIG_NF_TABLES"),
            Feature::NftNumgen => Some("CONFIG_NFT_NUMGEN"),
            Feature::NftHash => Some("CONFIG_NFT_HASH"),
            Feature::PolicyRouting => Some("CONFIG_IP_MULTIPLE_TABLES"),
            Feature::Gretap => Some("CONFIG_NET_IPGRE"),
            Feature::Vxlan => Some("CONFIG_VXLAN"),
            Feature::WireGuard => Some("CONFIG_WIREGUARD"),
            Feature::Teamd | Feature::Pppd | Feature::PppoeServer | Feature::Nft => None,
        }
    }

    /// Debian's package with the program; `None` for parts of the kernel.
    pub const fn package(self) -> Option<&'static str> {
        match self {
            Feature::Teamd => Some("libteam-utils"),
            Feature::Pppd => Some("ppp"),
            Feature::PppoeServer => Some("pppoe"),
            Feature::Nft => Some("nftables"),
            _ => None,
        }
    }

    /// How to get it, for users whose host lacks it.
    pub fn how_to_get(self) -> String {
        match (self.package(), self.module(), self.config()) {
            (Some(package), ..) => format!("{self} is not installed: apt install {package}"),
            (None, Some(module), Some(config)) => format!(
                "this kernel has no {self}: `modprobe {module}`, or use a kernel built with \
                 {config} (Debian's linux-image-amd64 has it)"
            ),
            (None, _, config) => format!(
                "this kernel has no {self}: use one built with {} (Debian's linux-image-amd64 has \
                 it)",
                config.unwrap_or("it")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_names_what_brings_it() {
        for feature in Feature::ALL {
            let told = feature.how_to_get();
            let source = feature.package().or(feature.config()).unwrap();
            assert!(told.contains(source), "{told}");
            assert_eq!(feature.package().is_some(), feature.config().is_none());
        }
    }
}
