use std::fmt;
use std::str::FromStr;

/// A mode of the tunnel, as written in scenarios and after `tunnel:`; `balance-xor` may include its
/// hash, as in `balance-xor:layer2+3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelMode {
    word: &'static str,
    xor_hash: Option<&'static str>,
}

const WORDS: [&str; 6] =
    ["adaptive", "balance-rr", BALANCE_XOR, "active-backup", "broadcast", "overflow"];
const BALANCE_XOR: &str = "balance-xor";
const XOR_HASHES: [&str; 3] = ["layer2", "layer2+3", "layer3+4"];

/// A word that isn't a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tunnel has no mode {written:?}; write one of: {}, or {BALANCE_XOR}:HASH with one of: {}",
    WORDS.join(", "),
    XOR_HASHES.join(", ")
)]
pub struct UnknownMode {
    written: String,
}

impl TunnelMode {
    /// The tunnel's default.
    pub const ADAPTIVE: TunnelMode = TunnelMode { word: WORDS[0], xor_hash: None };
    /// Each packet over the next link.
    pub const BALANCE_RR: TunnelMode = TunnelMode { word: WORDS[1], xor_hash: None };

    /// The mode's name in the tunnel's config.
    pub fn word(self) -> &'static str {
        self.word
    }

    /// The hash of `balance-xor`, if it is given.
    pub fn xor_hash(self) -> Option<&'static str> {
        self.xor_hash
    }
}

impl FromStr for TunnelMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownMode { written: text.to_owned() };
        let known = |words: &[&'static str], text: &str| {
            words.iter().copied().find(|word| *word == text).ok_or_else(unknown)
        };
        let (word, hash) = match text.split_once(':') {
            Some((BALANCE_XOR, hash)) => (BALANCE_XOR, Some(hash)),
            _ => (text, None),
        };
        let xor_hash = hash.map(|hash| known(&XOR_HASHES, hash)).transpose()?;
        Ok(TunnelMode { word: known(&WORDS, word)?, xor_hash })
    }
}

impl fmt::Display for TunnelMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)?;
        match self.xor_hash {
            Some(hash) => write!(f, ":{hash}"),
            None => Ok(()),
        }
    }
}
