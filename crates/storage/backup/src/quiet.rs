//! `rustic_core` panics when a restore can't continue: a full disk, a server that is gone.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Runs it. A panic of the library becomes an error, and isn't printed.
pub(crate) fn caught<T>(what: impl FnOnce() -> T) -> Result<T, String> {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let theirs = info.location().is_some_and(|at| at.file().contains("/rustic_core-"));
            if !theirs {
                usual(info);
            }
        }));
    });
    panic::catch_unwind(AssertUnwindSafe(what)).map_err(|why| said(&*why))
}

fn said(why: &(dyn Any + Send)) -> String {
    let text = why
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| why.downcast_ref::<&str>().copied())
        .unwrap_or("it gave up without a word");
    let text = text.split_once("`Err` value: ").map_or(text, |(_, error)| error);
    text.chars().take(500).collect()
}
