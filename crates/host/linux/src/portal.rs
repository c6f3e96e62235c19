//! Detects whether a link's network requires a login (a captive portal), by a request over that
//! link only.

mod page;
mod question;

pub use page::{Page, wanted};
pub use question::Question;
