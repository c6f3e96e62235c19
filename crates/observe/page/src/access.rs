//! Who may see the page, and who may change things on it.

mod attempts;
mod host;
mod one_time;
pub mod password;
mod session;
mod token;

pub use attempts::Attempts;
pub use host::{Host, host};
pub use one_time::{OneTime, VALID};
pub use session::{Session, Sessions};
pub use token::Token;
