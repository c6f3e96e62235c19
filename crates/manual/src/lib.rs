//! Manuals become a site that one can search, in two steps: what was written, whatever in, becomes
//! a [`model::Document`]; documents become pages ([`site::build`]).
//!
//! Nothing here knows Braid's tunnel, pools or daemon.

#![forbid(unsafe_code)]

pub mod check;
pub mod input;
pub mod man;
pub mod markdown;
pub mod model;
#[cfg(feature = "serve")]
pub mod serve;
pub mod site;
mod slug;
pub mod text;
pub mod words;
