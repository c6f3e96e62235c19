//! Braid: thin Linux I/O - TUN/TAP, UDP, netlink, nftables, namespaces.
