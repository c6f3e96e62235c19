//! The current config, and how requests change it.

use super::super::enrolments::Enrolments;
use super::super::referrals::Referrals;
use braid_control::config::{Config, ConfigEditor};
use braid_control::request::{Refusal, Request};

/// The config, and the text that changes are made on top of.
pub struct Settings {
    editor: ConfigEditor,
    /// Including the keys of homes that have joined, and referred concentrators.
    pub config: Config,
}

impl Settings {
    /// `config` is the parsed text of `editor`.
    pub fn new(editor: ConfigEditor, config: Config) -> Settings {
        Settings { editor, config }
    }

    /// The settings after a request; checked as by `config check` and `up`.
    pub fn changed(
        &self,
        request: Request,
        enrolments: &mut Enrolments,
        referrals: &Referrals,
    ) -> Result<Settings, Refusal> {
        let mut editor = self.editor.clone();
        let edited = match request {
            Request::AddLink(new) => editor.add_link(&new.name, &new.link),
            Request::SetLink { name, change } => {
                self.must_have(&name)?;
                editor.set_link(&name, &change)
            }
            Request::RemoveLink { name } => {
                self.must_have(&name)?;
                editor.remove_link(&name)
            }
            Request::SetMode(mode) => editor.set_mode(mode),
            Request::Reload => match ConfigEditor::open(&self.config.file) {
                Ok(read) => {
                    enrolments.read();
                    editor = read;
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Request::ReadHomes => {
                enrolments.read();
                Ok(())
            }
            // Handled by the main thread, or without effect on settings.
            Request::Down | Request::Stop | Request::Restart | Request::OpenPortal { .. } => Ok(()),
        };
        edited.map_err(|error| Refusal::Invalid(error.to_string()))?;
        let mut config = editor.check().map_err(|errors| Refusal::Invalid(errors.to_string()))?;
        enrolments.apply(&mut config);
        referrals.apply(&mut config);
        config.read_keys().map_err(|error| Refusal::Invalid(error.to_string()))?;
        Ok(Settings { editor, config })
    }

    fn must_have(&self, name: &str) -> Result<(), Refusal> {
        match self.config.link(name) {
            Some(_) => Ok(()),
            None => Err(Refusal::NotFound(format!("the running tunnel has no link {name:?}"))),
        }
    }
}
