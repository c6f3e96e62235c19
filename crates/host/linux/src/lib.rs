//! Linux I/O of the tunnel daemon, thin: TUN/TAP devices, UDP sockets bound to
//! links, epoll, netlink, policy routing, nftables, network namespaces, systemd.
//! What decides anything (what to send where, when) lives in other crates.

pub mod activation;
pub mod claim;
pub mod clock;
pub mod confinement;
pub mod exec;
pub mod icmp;
pub mod journal;
pub mod neighbour_proxy;
pub mod netlink;
pub mod netns;
pub mod network_manager;
pub mod nft;
pub mod operation;
pub mod peer;
pub mod poller;
pub mod portal;
pub mod probe;
pub mod resolv_conf;
pub mod routing;
pub mod scheduling;
pub mod sd;
pub mod thread_time;
pub mod tun;
pub mod udp;
pub mod wake_latency;

mod sys;
pub mod tool;
