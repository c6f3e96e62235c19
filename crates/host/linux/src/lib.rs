//! Interfaces to Linux that the tunnel's daemon needs: TUN/TAP devices, UDP sockets bound to links,
//! epoll, netlink, namespaces, systemd. Also the host's routing and firewall: `routing` and `nft`
//! plan them, `operation` applies and undoes changes, `journal` records them across a crash. Other
//! crates decide what is sent where and when.

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
