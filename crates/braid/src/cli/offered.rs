use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use std::error::Error as StdError;
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

/// Words that shells offer when completing a value. Any value that `T` can be parsed from is
/// accepted, and `T` reports errors, so use `hide_possible_values` to keep the words out of the
/// help.
#[derive(Clone)]
pub struct Offered<T> {
    words: Vec<String>,
    read: PhantomData<fn() -> T>,
}

impl<T> Offered<T> {
    pub fn new(words: impl IntoIterator<Item = impl ToString>) -> Self {
        let words = words.into_iter().map(|word| word.to_string()).collect();
        Self { words, read: PhantomData }
    }
}

impl<T> TypedValueParser for Offered<T>
where
    T: FromStr<Err: Into<Box<dyn StdError + Send + Sync>>> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, Error> {
        let read = |text: &str| text.parse::<T>();
        read.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(PossibleValue::new)))
    }
}
