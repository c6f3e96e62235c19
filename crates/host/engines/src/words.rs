//! Enums whose variants are each written as one word.

/// A word that isn't one of those allowed here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {allowed}")]
pub struct UnknownWord {
    word: String,
    allowed: String,
}

impl UnknownWord {
    pub(crate) fn new(word: &str, allowed: &[&str]) -> UnknownWord {
        UnknownWord { word: word.chars().take(64).collect(), allowed: allowed.join(", ") }
    }
}

/// An enum whose variants are each written as one word, in the config, in JSON
/// and in tables alike.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them, in the order to show them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            /// All words, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::UnknownWord::new(word, Self::WORDS)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use words;
