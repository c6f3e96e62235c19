use base64ct::{Base64UrlUnpadded, Encoding};
use std::fmt;

/// 256 unpredictable bits, as text for cookies, forms and addresses.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(String);

const BYTES: usize = 32;

impl Token {
    /// A new random token.
    ///
    /// # Panics
    /// If the system can't provide random bytes.
    pub fn random() -> Token {
        let mut bytes = [0; BYTES];
        // Linux' getrandom doesn't fail once it is initialised; guessable tokens would
        // let anybody in.
        if let Err(error) = getrandom::fill(&mut bytes) {
            panic!("the system gives no random bytes: {error}");
        }
        Token(Base64UrlUnpadded::encode_string(&bytes))
    }

    /// Parses a received token; `None` if it doesn't have the form of one.
    pub fn parse(text: &str) -> Option<Token> {
        let mut bytes = [0; BYTES];
        let fits = Base64UrlUnpadded::decode(text, &mut bytes).is_ok_and(|it| it.len() == BYTES);
        fits.then(|| Token(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
