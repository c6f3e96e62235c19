//! Braid: link emulator, scenarios, traffic, reports.

mod baseline;
pub mod cancel;
mod command;
mod demo;
pub mod emulator;
pub mod engines;
pub mod live;
mod measure;
pub mod report;
pub mod run;
pub mod scenario;
pub mod scratch;
pub mod topology;
pub mod traffic;

pub use command::{DemoArgs, LabArgs, LabCommand, RunArgs, ScenariosArgs, execute};
