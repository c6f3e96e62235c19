//! Stands in for the crate `dirs` (see `[patch.crates-io]`), of which `rustic_core` needs one
//! function: that crate brings `option-ext`, whose licence (MPL-2.0) isn't among ours.

#![forbid(unsafe_code)]

use std::env;
use std::path::PathBuf;

/// The user's folder for what can be made again
/// (<https://specifications.freedesktop.org/basedir-spec/latest/>).
#[must_use]
pub fn cache_dir() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}
