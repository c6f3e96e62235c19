//! Forms and queries: their fields, and what they ask for.

use crate::homes::NewHome;
use braid_control::config::LinkChange;
use std::collections::BTreeMap;

/// Fields of a form or a query; the first of a name counts.
#[derive(Clone, Debug, Default)]
pub struct Form(BTreeMap<String, String>);

impl Form {
    /// As browsers write them (WHATWG URL, application/x-www-form-urlencoded).
    pub fn parse(bytes: &[u8]) -> Form {
        let mut fields = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            fields.entry(name.into_owned()).or_insert(value.into_owned());
        }
        Form(fields)
    }

    /// A field's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// What a link's form asks for.
pub fn link_change(form: &Form) -> Result<LinkChange, ()> {
    let or_none = |key| {
        let text = form.get(key)?.trim();
        Some(if text.is_empty() { "none".to_owned() } else { text.to_owned() })
    };
    Ok(LinkChange {
        tier: form.get("tier").map(|tier| tier.trim().parse().map_err(|_| ())).transpose()?,
        standby: form.get("role").map(|role| role == "standby"),
        cap_down: or_none("cap_down"),
        cap_up: or_none("cap_up"),
        quota: or_none("quota"),
        ..LinkChange::default()
    })
}

impl NewHome {
    /// As a form or a query has it.
    pub fn parse(form: &Form) -> NewHome {
        let text = |key| form.get(key).unwrap_or_default().trim().to_owned();
        let list = |key| {
            let words = form.get(key).unwrap_or_default().split([',', ' ']);
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        NewHome {
            name: text("name"),
            valid: text("valid"),
            endpoints: list("endpoints"),
            addresses: list("addresses"),
        }
    }
}
