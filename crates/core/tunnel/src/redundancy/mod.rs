//! Redundancy where a repair would come too late: copies and parities, within
//! a budget.

pub mod budget;
pub mod erasure;
