//! Forms and queries: their fields, and what they request.

use crate::homes::NewHome;
use braid_control::config::LinkChange;
use braid_units::{ByteSize, Rate};
use std::collections::BTreeMap;

/// Fields of a form or a query; the first with a name counts.
#[derive(Clone, Debug, Default)]
pub struct Form(BTreeMap<String, String>);

impl Form {
    /// Parses them as browsers write them (WHATWG URL, application/x-www-form-urlencoded).
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

/// The change that a link's form requests. A form may come from anybody who makes a browser open an
/// address; it is shown as a command to type.
///
/// # Errors
/// A sentence that says which field is wrong, and how to write it.
pub fn link_change(form: &Form) -> Result<LinkChange, String> {
    let quantity = |key, what: &str, is_one: fn(&str) -> bool, example: &str| {
        let Some(text) = form.get(key) else { return Ok(None) };
        match text.split_whitespace().collect::<String>() {
            none if none.is_empty() || none == "none" => Ok(Some("none".to_owned())),
            text if is_one(&text) => Ok(Some(text)),
            text => {
                Err(format!("{what} can't be {text:?}: write it as {example}, or leave it empty."))
            }
        }
    };
    let tier = form.get("tier").map(|tier| tier.trim().parse());
    Ok(LinkChange {
        tier: tier.transpose().map_err(|_| "The tier must be a number from 0 to 255.")?,
        standby: form.get("role").map(|role| role == "standby"),
        cap_down: quantity("cap_down", "The cap down", is_rate, "20Mbit")?,
        cap_up: quantity("cap_up", "The cap up", is_rate, "5Mbit")?,
        quota: quantity("quota", "The quota", is_quota, "20GB/month or 1GB/day")?,
        ..LinkChange::default()
    })
}

fn is_rate(text: &str) -> bool {
    text.parse::<Rate>().is_ok()
}

fn is_quota(text: &str) -> bool {
    let (bytes, per) = text.split_once('/').unwrap_or((text, "month"));
    bytes.parse::<ByteSize>().is_ok() && matches!(per, "day" | "month")
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(query: &str) -> Result<LinkChange, String> {
        link_change(&Form::parse(query.as_bytes()))
    }

    #[test]
    fn what_is_no_rate_and_no_quota_is_refused() {
        let right = change("tier=1&cap_down=20+Mbit&cap_up=&quota=20GB%2Fmonth").unwrap();
        assert_eq!(right.cap_down.as_deref(), Some("20Mbit"));
        assert_eq!(right.cap_up.as_deref(), Some("none"));
        assert_eq!(right.quota.as_deref(), Some("20GB/month"));
        for (query, what) in [
            ("cap_down=1%3Bcurl+evil%7Csh", "cap down"),
            ("cap_up=%24%28id%29", "cap up"),
            ("cap_up=5bananas", "cap up"),
            ("quota=1GB%2Fday%0Areboot", "quota"),
            ("quota=1GB%2Fyear", "quota"),
            ("tier=256", "tier"),
        ] {
            let refused = change(query).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }

    proptest! {
        /// It appears in a command that people copy.
        #[test]
        fn what_is_taken_means_nothing_to_a_shell(text in ".{0,20}", number in "[0-9]{1,3}") {
            for text in [text.clone(), format!("{number}{text}"), format!("{number}Mbit{text}")] {
                let query = form_urlencoded::Serializer::new(String::new())
                    .append_pair("cap_down", &text)
                    .append_pair("quota", &text)
                    .finish();
                if let Ok(taken) = change(&query) {
                    let plain = |text: Option<String>| text.is_none_or(|text| {
                        text.chars().all(|c| c.is_ascii_alphanumeric() || "./+-".contains(c))
                    });
                    prop_assert!(plain(taken.cap_down) && plain(taken.quota));
                }
            }
        }
    }
}
