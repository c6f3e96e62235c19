//! Measures pools: fio and databases on the layouts themselves, which disks the kernel used
//! meanwhile, and the model's figure beside each measured one.

#![forbid(unsafe_code)]

pub mod database;
pub mod fio;
pub mod fio_answer;
pub mod measure;
pub mod profile;
pub mod remains;
pub mod report;
pub mod sectors;
pub mod statistic;
pub mod temporary_pool;
pub mod workload;

mod account;
mod error;
mod lifeline;

pub use error::BenchError;
