//! Commands that change an existing pool.

use super::carry_out::{Consent, carry_out};
use super::encrypt::Encrypt;
use super::mount_point::without_links;
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
    /// The pool, as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Plans the change that `of` derives from the host's state, and carries it out.
    pub fn change(
        &self,
        global: &Global,
        encrypt: Option<&Encrypt>,
        of: impl FnOnce(&mut Seen) -> Result<Change, Failure>,
    ) -> Result<(), Failure> {
        let mut seen = Seen::now(&self.consent.place.config());
        seen.host.header_backups = Some(self.consent.place.header_backups()?);
        let pool = seen.pool(&self.name)?.clone();
        // Check this first: otherwise disks of an interrupted plan would be reported as in use.
        self.consent.place.check_nothing_unfinished(&planner::journal_name(&pool))?;
        let mount = self.mount.as_deref().map(without_links).transpose()?;
        let mut change = of(&mut seen)?;
        let (place, dry_run) = (&self.consent.place, self.consent.dry_run());
        let lent = match encrypt {
            Some(encrypt) => {
                // A dry run first, so that nobody is asked for a passphrase in vain.
                encrypt.changed(&pool, &seen.host, &mut change, place, true)?;
                planner::change(&pool, &change, mount.as_deref(), &seen.host)?;
                encrypt.changed(&pool, &seen.host, &mut change, place, dry_run)?
            }
            None => None,
        };
        let plan = planner::change(&pool, &change, mount.as_deref(), &seen.host)?;
        let done = carry_out(plan, &self.consent, global);
        drop(lent);
        done
    }
}
