//! Whether a link's network wants a login first (a captive portal): a question by that link alone,
//! and what the answer says.

mod page;
mod question;

pub use page::{Page, wanted};
pub use question::Question;
