//! axe-core, which checks pages' accessibility: fetched by npm when a test needs it, kept in the
//! target folder.

use crate::Browser;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The axe-core script.
pub struct Axe(String);

impl Axe {
    /// Fetches it into `folder`, usually `env!("CARGO_TARGET_TMPDIR")`. `None`, with a message, if
    /// npm can't fetch it.
    #[must_use]
    pub fn fetch(folder: &Path) -> Option<Axe> {
        let kept = folder.join("axe-core-4/axe.min.js");
        if !kept.is_file() && fetch_into(folder).is_none() {
            eprintln!("SKIPPED: npm can't fetch axe-core");
            return None;
        }
        Some(Axe(fs::read_to_string(kept).expect("what was unpacked can be read")))
    }
}

/// Other tests may do the same at the same time: the first one wins.
fn fetch_into(folder: &Path) -> Option<()> {
    fs::create_dir_all(folder).ok()?;
    let work = tempfile::tempdir_in(folder).ok()?;
    let packed = Command::new("npm").args(["pack", "axe-core@4"]).current_dir(&work).output();
    packed.ok().filter(|output| output.status.success())?;
    let mut files = fs::read_dir(&work).ok()?.flatten().map(|entry| entry.path());
    let archive = files.find(|file| file.extension().is_some_and(|ending| ending == "tgz"))?;
    let unpacked =
        Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(work.path()).output().ok()?;
    unpacked.status.success().then_some(())?;
    let there = folder.join("axe-core-4");
    match fs::rename(work.path().join("package"), &there) {
        Err(_) if there.join("axe.min.js").is_file() => Some(()),
        renamed => renamed.ok(),
    }
}

impl Browser {
    /// The open page's violations: each rule that it breaks, and where.
    #[must_use]
    pub fn violations(&self, axe: &Axe) -> Vec<String> {
        self.run(&axe.0, &[]);
        let found = self.wait_for_promise(
            "return axe.run().then(found => found.violations.map(rule =>
                 rule.id + ': ' + rule.nodes.slice(0, 3).map(node => node.html).join(' | ')))",
            &[],
        );
        let found = found.as_array().unwrap_or_else(|| panic!("axe says {found}"));
        found.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// By how many pixels the page must be scrolled sideways.
    #[must_use]
    pub fn overflow(&self) -> i64 {
        let wide = "const root = document.documentElement; \
                    return root.scrollWidth - root.clientWidth";
        self.run(wide, &[]).as_i64().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_found_and_what_is_right_is_not() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tmp");
        let Some(axe) = Axe::fetch(&folder) else { return };
        let Some(browser) = Browser::start() else { return };
        browser.open("data:text/html,<html lang=en><title>t</title><main><h1>h</h1></main>");
        assert_eq!(browser.violations(&axe), [""; 0]);
        browser.open("data:text/html,<html lang=en><title>t</title><main><h1>h</h1><input></main>");
        let found = browser.violations(&axe);
        assert!(found.len() == 1 && found[0].starts_with("label: <input"), "{found:?}");
    }
}
