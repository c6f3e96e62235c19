//! Braid: link emulator, scenarios, traffic, reports.

mod baseline;
pub mod cancel;
mod command;
pub mod compare;
mod demo;
pub mod emulator;
pub mod engines;
pub mod live;
mod measure;
mod output;
pub mod plan;
pub mod report;
pub mod run;
pub mod scenario;
pub mod scratch;
pub mod second_kernel;
pub mod topology;
pub mod traffic;
mod wire_log;

pub use command::{
    CompareArgs, DemoArgs, LabArgs, LabCommand, RunArgs, ScenariosArgs, VmArgs, execute,
};
