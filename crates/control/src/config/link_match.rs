use super::keyword::keyword_enum;
use super::section::Section;
use std::fmt;
use std::str::FromStr;

/// `link.match`: which of the host's interfaces the link may use, if its name isn't known in
/// advance. All conditions that are set must hold; at least one is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkMatch {
    /// What kind of interface it is.
    pub kind: Option<LinkKind>,
    /// The USB device that it belongs to.
    pub usb: Option<UsbId>,
    /// The NetworkManager connection that is active on it, by its name or UUID.
    pub connection: Option<String>,
}

keyword_enum! {
    /// What kind of interface a link is.
    LinkKind {
        /// A network card with a cable, or an adapter.
        Ethernet = "ethernet",
        /// A wireless LAN.
        Wifi = "wifi",
        /// A cellular modem.
        Wwan = "wwan",
        /// A phone that shares its connection, by USB or Bluetooth.
        Tether = "tether",
    }
}

/// A USB device, as `lsusb` shows it: `18d1:4eeb`, or all of a vendor's: `18d1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UsbId {
    /// `idVendor`.
    pub vendor: u16,
    /// `idProduct`; `None` matches all.
    pub product: Option<u16>,
}

/// A text that isn't a [`UsbId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no USB id; write VENDOR:PRODUCT as `lsusb` shows it, such as \"18d1:4eeb\"")]
pub struct UsbIdError(String);

/// Maximum length; NetworkManager doesn't limit connection names, but this is far more than usual.
const CONNECTION_MOST: usize = 256;

impl LinkMatch {
    /// How many conditions it has: more conditions are more specific.
    pub fn conditions(&self) -> usize {
        let LinkMatch { kind, usb, connection } = self;
        let exact = usb.is_some_and(|usb| usb.product.is_some());
        [kind.is_some(), usb.is_some(), exact, connection.is_some()]
            .into_iter()
            .filter(|it| *it)
            .count()
    }
}

impl fmt::Display for LinkMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.kind.map(|kind| format!("kind {kind}")),
            self.usb.map(|usb| format!("usb {usb}")),
            self.connection.as_ref().map(|name| format!("connection {name:?}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl UsbId {
    /// Whether it matches the device.
    pub fn covers(self, device: UsbId) -> bool {
        self.vendor == device.vendor && self.product.is_none_or(|it| device.product == Some(it))
    }
}

impl FromStr for UsbId {
    type Err = UsbIdError;

    fn from_str(text: &str) -> Result<UsbId, UsbIdError> {
        let wrong = || UsbIdError(text.to_owned());
        let number = |digits: &str| {
            let four = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            four.then(|| u16::from_str_radix(digits, 16).ok()).flatten().ok_or_else(wrong)
        };
        let (vendor, product) = match text.split_once(':') {
            Some((vendor, product)) => (vendor, Some(number(product)?)),
            None => (text, None),
        };
        Ok(UsbId { vendor: number(vendor)?, product })
    }
}

impl fmt::Display for UsbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.vendor)?;
        self.product.map_or(Ok(()), |product| write!(f, ":{product:04x}"))
    }
}

/// `match = { kind = "wifi" }`; `None` if it is invalid, which is reported.
pub(super) fn read(mut section: Section<'_, '_>) -> Option<LinkMatch> {
    let found = LinkMatch {
        kind: section.parsed("kind"),
        usb: section.parsed("usb"),
        connection: section.parsed_by("connection", connection),
    };
    if !["kind", "usb", "connection"].iter().any(|key| section.has(key)) {
        section.missing("kind, usb or connection", "write match = { kind = \"wifi\" }");
    }
    section.finish();
    (found != LinkMatch::default()).then_some(found)
}

fn connection(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() <= CONNECTION_MOST;
    match fits && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => {
            Err(format!("{text:?} is not the name of a connection; `nmcli connection` lists them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usb_ids_are_as_lsusb_shows_them() {
        for text in ["18d1:4eeb", "18d1"] {
            assert_eq!(text.parse::<UsbId>().unwrap().to_string(), text);
        }
        for text in ["", "18d1:", "18d1:4eeg", "18d1:4eeb:1", "8d1:4eeb", "+8d1:4eeb", "0x18d1"] {
            assert!(text.parse::<UsbId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_vendor_covers_all_its_devices() {
        let id = |text: &str| text.parse::<UsbId>().unwrap();
        assert!(id("18d1").covers(id("18d1:4eeb")) && id("18d1:4eeb").covers(id("18d1:4eeb")));
        assert!(!id("18d1:4eec").covers(id("18d1:4eeb")) && !id("05ac").covers(id("18d1:4eeb")));
    }
}
