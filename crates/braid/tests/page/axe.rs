//! axe-core (MPL-2.0, from npm, for tests only): what a screen reader or a keyboard can't use.

use braid_browser::Browser;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = "4.14.1";

/// Its rules, as a script.
pub struct Axe(String);

impl Axe {
    /// From the build folder, or else from npm. None, with a word, where neither has it.
    pub fn find() -> Option<Axe> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let script = folder.join(format!("axe-{VERSION}.js"));
        if !script.exists()
            && let Err(why) = fetch(&script)
        {
            eprintln!("SKIPPED: no axe-core {VERSION}: {why}");
            return None;
        }
        Some(Axe(std::fs::read_to_string(script).unwrap()))
    }

    /// Fails if something of the open page can't be used by everybody.
    pub fn assert_no_violation(&self, browser: &Browser, what: &str) {
        browser.run(&self.0, &[]);
        let found = browser.wait_for_promise(
            "return axe.run().then(found => found.violations.map(one => \
             one.id + ': ' + one.help + '\\n' + one.nodes.map(node => \
             node.html + '\\n' + node.failureSummary).join('\\n')))",
            &[],
        );
        assert_eq!(found, json!([]), "{what}: {found:#}");
    }
}

/// Two tests at once write files of their own.
fn fetch(script: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir_in(script.parent().unwrap()).map_err(|e| e.to_string())?;
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{program}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("{program}: {said}")) }
    };
    run("npm", &["pack", "--silent", &format!("axe-core@{VERSION}")])?;
    run("tar", &["-xzf", &format!("axe-core-{VERSION}.tgz"), "package/axe.min.js"])?;
    std::fs::rename(folder.path().join("package/axe.min.js"), script).map_err(|e| e.to_string())
}
