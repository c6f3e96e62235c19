//! Pools of disks as a pure model: what a disk carries, which layouts there are and what each
//! gives, a pool's observed state, and the steps to the desired one. No process is started and no
//! file is read here.

#![forbid(unsafe_code)]

pub mod absent_mounts;
pub mod capacity;
pub mod desired;
pub mod disk;
mod disk_id;
pub mod doctor;
#[cfg(test)]
mod fixture;
pub mod fstab;
pub mod growth;
pub mod key_text;
pub mod layout;
pub mod luks;
pub mod membership;
pub mod mount_options;
pub mod observed;
pub mod place;
pub mod planner;
mod pool_name;
pub mod prometheus;
pub mod ranking;
pub mod retention;
pub mod speed;
pub mod step;
pub mod summary;
pub mod survival;
pub mod untrusted;
pub mod upkeep;
pub mod uuid;
pub mod watch;
pub mod wish;
