//! What commands that delete by a policy ask of the user before they do.

use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, FailureKind, tell};

/// What the user has said on the command line.
pub struct Consent {
    /// Nothing is to be deleted.
    pub dry_run: bool,
    /// No question is to be asked.
    pub yes: bool,
    /// Cautions are known.
    pub allow_mass_deletion: bool,
}

impl Consent {
    /// Whether so many may go of which these cautions are to be told.
    ///
    /// # Errors
    /// `Declined`.
    pub fn obtain(&self, cautions: &[String], going: usize) -> Result<(), Failure> {
        if self.yes && !self.dry_run && !cautions.is_empty() && !self.allow_mass_deletion {
            let message = format!(
                "nothing was deleted: {}; if this is intended, add --allow-mass-deletion",
                cautions.join("; ")
            );
            return Err(Failure::new(FailureKind::Declined, message));
        }
        cautions.iter().for_each(|caution| tell(caution));
        if going > 0 && !self.dry_run && !self.yes {
            confirm()?;
        }
        Ok(())
    }
}
