//! Homes of a concentrator: who may join, and who no longer.

use braid_control::request::Refusal;

/// What the page shows of a concentrator's homes, and changes in its config. Its methods may
/// block for a moment.
pub trait Homes: Send + Sync {
    /// All homes in the config.
    fn all(&self) -> Vec<HomeLine>;

    /// What adding a home would do.
    ///
    /// # Errors
    /// Why it can't be added.
    fn plan(&self, wish: &NewHome) -> Result<HomePlan, Refusal>;

    /// Adds a home; returns the join line that lets it in.
    ///
    /// # Errors
    /// Why it can't be added.
    fn add(&self, wish: &NewHome) -> Result<OnceShown, Refusal>;

    /// Gives a home a new line; its current router is shut out.
    ///
    /// # Errors
    /// Why the previous one remains valid.
    fn renew(&self, name: &str, valid: &str) -> Result<OnceShown, Refusal>;

    /// Revokes the line of a home that has yet to join.
    ///
    /// # Errors
    /// Why it remains valid, for instance because the home has joined meanwhile.
    fn revoke(&self, name: &str) -> Result<(), Refusal>;

    /// Shuts a home out.
    ///
    /// # Errors
    /// Why that isn't possible.
    fn remove(&self, name: &str) -> Result<(), Refusal>;
}

/// A home as the config has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeLine {
    /// Its name.
    pub name: String,
    /// Its inner addresses.
    pub addresses: Vec<String>,
    /// Whether it has joined.
    pub joined: Joined,
    /// When it was last connected, Unix seconds, as far as history goes back.
    pub last_seen_unix: Option<i64>,
}

/// Whether a home has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Its line is valid until then, Unix seconds.
    Invited(i64),
    /// Its line expired unused then, Unix seconds.
    Expired(i64),
    /// It has joined.
    Joined,
}

/// A home to add; texts as for `braid concentrator add-home`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewHome {
    /// Its name.
    pub name: String,
    /// How long its line is valid.
    pub valid: String,
    /// Where homes reach this host; if empty, as given to `init`.
    pub endpoints: Vec<String>,
    /// Its inner addresses; if empty, the next free ones.
    pub addresses: Vec<String>,
}

/// What adding a home would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePlan {
    /// The inner addresses that it would get.
    pub addresses: Vec<String>,
    /// Where it would reach this host.
    pub endpoints: Vec<String>,
    /// The config that would be changed.
    pub file: String,
    /// Why the daemon can't change it, if so.
    pub trouble: Option<String>,
}

/// A join line, on its way to whoever requested it; anybody who has it can join.
#[derive(Clone)]
pub struct OnceShown {
    /// The line.
    pub line: String,
    /// When it expires, Unix seconds.
    pub until_unix: i64,
    /// What went wrong besides.
    pub trouble: Option<String>,
}

/// A request about a home in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Give it a new line.
    Renew,
    /// Invalidate its line.
    Revoke,
    /// Shut it out.
    Remove,
}

impl Order {
    /// Parses the last part of its address.
    pub fn parse(text: &str) -> Option<Order> {
        match text {
            "renew" => Some(Order::Renew),
            "revoke" => Some(Order::Revoke),
            "remove" => Some(Order::Remove),
            _ => None,
        }
    }
}
