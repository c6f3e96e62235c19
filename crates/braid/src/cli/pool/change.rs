//! Commands that change a pool that there is.

use super::carry_out::{Consent, carry_out};
use super::seen::Seen;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::planner::{self, Change};
use clap::Args;

/// Which pool, and how.
#[derive(Args)]
pub struct Target {
    #[command(flatten)]
    consent: Consent,
    /// The pool's name or UUID
    name: String,
    /// Where to mount it, if it isn't mounted and fstab doesn't say
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
}

impl Target {
    /// Plans the change that `of` makes of what is seen, and carries it out.
    pub fn change(
        &self,
        global: &Global,
        of: impl FnOnce(&mut Seen) -> Result<Change, Failure>,
    ) -> Result<(), Failure> {
        let mut seen = Seen::now(&self.consent.place.config());
        let pool = seen.pool(&self.name)?.clone();
        let change = of(&mut seen)?;
        let plan = planner::change(&pool, &change, self.mount.as_deref(), &seen.host)?;
        carry_out(plan, &self.consent, global)
    }
}
