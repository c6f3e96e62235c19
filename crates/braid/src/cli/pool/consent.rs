//! What commands that delete by a policy ask the user beforehand.

use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, FailureKind, tell};

/// The user's choices on the command line.
pub struct Consent {
    /// Delete nothing.
    pub dry_run: bool,
    /// Ask no question.
    pub yes: bool,
    /// The user knows the cautions.
    pub allow_mass_deletion: bool,
}

impl Consent {
    /// Asks whether `going` items may be deleted despite these cautions.
    ///
    /// # Errors
    /// `Declined` if not.
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
