//! Which traffic goes where: what rules match, which link they choose, which marks keep connections
//! on it, and why. Pure: files are given as text, links as lists.

#![forbid(unsafe_code)]

mod answers;
mod conditions;
mod domain;
mod explanation;
mod learnt;
mod leases;
mod mac;
mod marks;
mod networks;
mod rule;

pub use answers::Answers;
pub use conditions::{Cgroup, Conditions, Connection, Destinations, Devices, Sender, Transport};
pub use domain::{DomainName, DomainPattern, DomainTable, NotADomain, read_domains};
pub use explanation::{Considered, Explanation, Way, explain, first_match};
pub use learnt::{Learnt, LearntAddress, Lesson};
pub use leases::{Lease, read_leases};
pub use mac::{Mac, NotAMac};
pub use marks::{Marks, Pair};
pub use networks::{Origin, WrongLine, read_networks, read_origins};
pub use rule::{Candidate, Otherwise, Rule, Targets, Verdict};
