//! The pools that the user names.

use super::locked::{is_locked, locked};
use crate::cli::failure::{Failure, FailureKind};
use braid_disks::{AskSmart, HostRoot, Inventory, luks, pools};
use braid_pool::observed::{Mount, ObservedHost, ObservedPool};
use clap::Args;

/// Pools by name; commands that change something want them named, or `--all`.
#[derive(Args)]
pub struct PoolNames {
    /// Names or UUIDs of pools
    #[arg(value_name = "POOL")]
    names: Vec<String>,
    /// All pools of this host
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl PoolNames {
    /// The named pools; naming none is an error.
    pub fn required(&self) -> Result<Vec<ObservedPool>, Failure> {
        if self.names.is_empty() && !self.all {
            return Err(Failure::new(FailureKind::Usage, "name a pool, or add --all"));
        }
        self.or_all()
    }

    /// The named pools; all if none is named.
    pub fn or_all(&self) -> Result<Vec<ObservedPool>, Failure> {
        let host = HostRoot::real();
        let inventory = Inventory::take(&host, AskSmart::No);
        let around =
            ObservedHost { luks: luks::volumes(&host, &inventory), ..ObservedHost::default() };
        let (locked, pools) = (locked(&around), pools::observe(&host, &inventory));
        let is_there = |name: &str| pools.iter().any(|pool| is(pool, name));
        match self.names.iter().find(|name| !is_there(name) && locked.contains_key(name.as_str())) {
            Some(name) => Err(is_locked(name)),
            None => choose(pools, &self.names, &[]),
        }
    }
}

/// The pools with these names or UUIDs; all if none are given. Pools that are `locked` are known
/// only by name: they count as existing, but aren't returned.
pub fn choose(
    pools: Vec<ObservedPool>,
    names: &[String],
    locked: &[&str],
) -> Result<Vec<ObservedPool>, Failure> {
    for name in names.iter().filter(|name| !locked.contains(&name.as_str())) {
        one(&pools, name)?;
    }
    let chosen = |pool: &ObservedPool| names.is_empty() || names.iter().any(|name| is(pool, name));
    Ok(pools.into_iter().filter(chosen).collect())
}

/// The pool with this name or UUID.
pub fn one<'a>(pools: &'a [ObservedPool], name: &str) -> Result<&'a ObservedPool, Failure> {
    let found: Vec<&ObservedPool> = pools.iter().filter(|pool| is(pool, name)).collect();
    let listed = |texts: Vec<String>| match texts.is_empty() {
        true => "none".to_owned(),
        false => texts.join(", "),
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let all = listed(pools.iter().map(ObservedPool::name).collect());
            Err(Failure::failed(format!("there is no pool {name}; pools here: {all}")))
        }
        several => {
            let uuids = listed(several.iter().map(|pool| pool.uuid().to_string()).collect());
            Err(Failure::failed(format!("several pools are called {name}; use a UUID: {uuids}")))
        }
    }
}

fn is(pool: &ObservedPool, name: &str) -> bool {
    let is_mount = |mount: &Mount| name.starts_with('/') && mount.at == without_end(name);
    pool.name() == name || name.parse() == Ok(pool.uuid()) || pool.mounts().iter().any(is_mount)
}

fn without_end(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_pool_is_a_failure_that_says_which_there_are() {
        let failure = choose(Vec::new(), &["photos".to_owned()], &[]).unwrap_err().to_string();
        assert_eq!(failure, "there is no pool photos; pools here: none");
    }
}
