//! Backup targets for tests: real servers on free ports of this computer; faults in between; files
//! that are hard to copy.

#![forbid(unsafe_code)]

mod behind;
mod locking;
mod noise;
mod odd_files;
mod program;
mod proxy;
mod s3;

pub use noise::noise;
pub use odd_files::{change, differences, fill};
pub use program::{RestServer, VersityServer, restic, restic_is_there, sftp_server};
pub use proxy::{Fault, Proxy, Request};
pub use s3::{KEY, S3Server, SECRET};
