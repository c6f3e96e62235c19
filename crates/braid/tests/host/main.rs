//! What the program does to a host that has a life of its own: uplinks by router
//! advertisements and DHCP, port forwards, other programs' firewalls. Nothing of it may
//! break, and all is as before when the tunnel is down. Needs root.

mod advertised;
mod backed_up;
mod firewalld;
mod heard;
mod http3;
mod inbound;
mod matrix;
mod mwan3;
mod portal;
mod ruled;
mod samba;
mod scale;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../end_to_end/side.rs"]
mod side;
mod split;
mod treated;
mod watched;
mod world;

use std::time::Duration;

/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);
