//! Homes of a concentrator: who may come in, and who may no more.

use braid_control::request::Refusal;

/// What the page shows of a concentrator's homes, and changes in its config. Its methods may
/// block for a moment.
pub trait Homes: Send + Sync {
    /// All that the config has.
    fn all(&self) -> Vec<HomeLine>;

    /// What adding a home would do.
    ///
    /// # Errors
    /// Why it can't be added.
    fn plan(&self, wish: &NewHome) -> Result<HomePlan, Refusal>;

    /// Adds a home, and gives the line that lets it in.
    ///
    /// # Errors
    /// Why it isn't added.
    fn add(&self, wish: &NewHome) -> Result<OnceShown, Refusal>;

    /// Gives a home another line; the router that it has is shut out.
    ///
    /// # Errors
    /// Why the one before still counts.
    fn renew(&self, name: &str, valid: &str) -> Result<OnceShown, Refusal>;

    /// Revokes the line of a home that has yet to join.
    ///
    /// # Errors
    /// Why it still counts; that it has joined meanwhile is one.
    fn revoke(&self, name: &str) -> Result<(), Refusal>;

    /// Shuts a home out.
    ///
    /// # Errors
    /// Why it isn't.
    fn remove(&self, name: &str) -> Result<(), Refusal>;
}

/// A home as the config has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeLine {
    /// Its name.
    pub name: String,
    /// Its inner addresses.
    pub addresses: Vec<String>,
    /// Whether it is in.
    pub joined: Joined,
    /// When it was connected last, Unix seconds, as far as history goes back.
    pub last_seen_unix: Option<i64>,
}

/// Whether a home is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Its line lets it in until then, Unix seconds.
    Invited(i64),
    /// Its line was not used until then, Unix seconds.
    Expired(i64),
    /// Yes.
    Joined,
}

/// A home to be added; texts as `braid concentrator add-home` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewHome {
    /// Its name.
    pub name: String,
    /// How long its line is valid.
    pub valid: String,
    /// Where homes reach this host; empty: as given to `init`.
    pub endpoints: Vec<String>,
    /// Its inner addresses; empty: the next free ones.
    pub addresses: Vec<String>,
}

/// What adding a home would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePlan {
    /// The inner addresses that it would get.
    pub addresses: Vec<String>,
    /// Where it would find this host.
    pub endpoints: Vec<String>,
    /// The config that would be changed.
    pub file: String,
    /// Why the daemon couldn't change it, if so.
    pub trouble: Option<String>,
}

/// A join line, on its way to the one who asked for it: whoever has it is let in.
#[derive(Clone)]
pub struct OnceShown {
    /// The line.
    pub line: String,
    /// Until when it is valid, Unix seconds.
    pub until_unix: i64,
    /// What went wrong besides.
    pub trouble: Option<String>,
}

/// What is asked for a home that the config has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Another line.
    Renew,
    /// Its line lets nobody in any more.
    Revoke,
    /// It is shut out.
    Remove,
}

impl Order {
    /// As the last part of its address.
    pub fn parse(text: &str) -> Option<Order> {
        match text {
            "renew" => Some(Order::Renew),
            "revoke" => Some(Order::Revoke),
            "remove" => Some(Order::Remove),
            _ => None,
        }
    }
}
