/// A word that isn't one of those allowed here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {allowed}{suggestion}")]
pub struct UnknownWord {
    word: String,
    allowed: String,
    suggestion: String,
}

impl UnknownWord {
    pub(super) fn new(word: &str, allowed: &[&'static str]) -> Self {
        let suggestion = super::closest(word, allowed.iter().copied())
            .map(|close| format!("; did you mean {close:?}?"))
            .unwrap_or_default();
        UnknownWord { word: word.to_owned(), allowed: allowed.join(", "), suggestion }
    }
}

/// An enum whose variants are each written as one word, in the config, in JSON
/// and on the command line alike.
macro_rules! keyword_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All words, in the order to show them.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::config::UnknownWord;
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::config::UnknownWord::new(word, Self::WORDS)),
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
pub(super) use keyword_enum;
