//! A real browser for tests: headless Chromium, controlled by chromedriver (WebDriver, W3C).
//!
//! Methods panic if the browser reports an error, so that the test fails.

// For tests only: an error of the browser fails the test.
#![allow(clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

mod axe;
mod driver;

pub use axe::Axe;

use base64ct::{Base64, Encoding};
use driver::Driver;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for a condition on a page.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a script may run.
const LONGEST_SCRIPT: Duration = Duration::from_secs(100);
/// Time between two checks of a condition.
const LOOK: Duration = Duration::from_millis(20);
/// The key that marks an element reference in WebDriver (section 12.2).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one page and an empty profile. It ends when dropped.
pub struct Browser {
    driver: Driver,
    session: String,
}

/// Keys without a character (WebDriver, section 17.4.2).
pub mod keys {
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
    /// Arrow down.
    pub const DOWN: &str = "\u{e015}";
    /// Tab.
    pub const TAB: &str = "\u{e004}";
}

impl Browser {
    /// Starts one; `None`, with a message, if Chromium or chromedriver isn't installed.
    #[must_use]
    pub fn start() -> Option<Browser> {
        for program in ["chromium", "chromedriver"] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!(
                    "SKIPPED: there is no {program} (apt-get install chromium chromium-driver)"
                );
                return None;
            }
        }
        let driver = Driver::start();
        let profile = driver.profile().to_string_lossy().into_owned();
        let arguments = [
            "--headless",
            // Its sandbox needs privileges that root in a container lacks.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            &format!("--user-data-dir={profile}"),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "timeouts": { "script": LONGEST_SCRIPT.as_millis() as u64 },
            "goog:chromeOptions": { "args": arguments, "binary": program_path("chromium") },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let made = driver.post("/session", &wanted);
        let session = made["sessionId"].as_str().expect("a session has an id").to_owned();
        Some(Browser { driver, session })
    }

    /// Opens an address and waits until the page is loaded.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// The current address.
    #[must_use]
    pub fn url(&self) -> String {
        text_of(&self.get("/url"))
    }

    /// Goes back, like the browser's button.
    pub fn back(&self) {
        self.post("/back", &json!({}));
    }

    /// Runs a script in the page; returns the value of its `return …;`. `arguments` are
    /// `arguments[0]` and so on.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Runs a script that returns a promise; returns the promise's value.
    pub fn wait_for_promise(&self, script: &str, arguments: &[Value]) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1];\n\
             const body = function () {{ {script} }};\n\
             Promise.resolve(body.apply(null, arguments)).then(done, e => done({{error: String(e)}}));"
        );
        self.post("/execute/async", &json!({ "script": script, "args": arguments }))
    }

    /// Waits until a script returns a true value, and returns that.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_until(&self, script: &str) -> Value {
        let begun = Instant::now();
        loop {
            let value = self.run(script, &[]);
            let so = !matches!(value, Value::Null | Value::Bool(false));
            if so && value != json!("") && value != json!(0) {
                return value;
            }
            assert!(begun.elapsed() < LONGEST_WAIT, "never came true at {}: {script}", self.url());
            thread::sleep(LOOK);
        }
    }

    /// The visible text of the first matching element.
    #[must_use]
    pub fn text(&self, css: &str) -> String {
        text_of(&self.get(&format!("/element/{}/text", self.element(css))))
    }

    /// Clicks the first matching element.
    pub fn click(&self, css: &str) {
        self.post(&format!("/element/{}/click", self.element(css)), &json!({}));
    }

    /// Types into the first matching element; see [`keys`].
    pub fn keys(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Sets the size of the window, in CSS pixels.
    pub fn resize(&self, width: u32, height: u32) {
        self.post("/window/rect", &json!({ "width": width, "height": height }));
    }

    /// A command of Chromium's DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let command = json!({ "cmd": command, "params": parameters });
        self.post("/goog/cdp/execute", &command)
    }

    /// What the page wrote to its console since the last call, including script and loading errors.
    #[must_use]
    pub fn console(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| text_of(&entry["message"])).collect()
    }

    /// Saves a screenshot as a PNG file.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn screenshot(&self, file: &Path) {
        let shown = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }));
        let encoded = shown["data"].as_str().expect("a picture");
        let picture = Base64::decode_vec(encoded).expect("base64");
        std::fs::write(file, picture).expect("the picture can be written");
    }

    fn element(&self, css: &str) -> String {
        let wanted = json!({ "using": "css selector", "value": css });
        text_of(&self.post("/element", &wanted)[ELEMENT])
    }

    fn get(&self, path: &str) -> Value {
        self.driver.get(&format!("/session/{}{path}", self.session))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.driver.post(&format!("/session/{}{path}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.driver.delete(&format!("/session/{}", self.session));
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The path of a program in PATH.
fn program_path(name: &str) -> String {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let found = found.into_iter().find(|file| file.is_file());
    found.map_or_else(|| name.to_owned(), |file| file.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_opened_read_clicked_typed_into_and_left() {
        let Some(browser) = Browser::start() else { return };
        let page = "data:text/html,<title>one</title><input id=i><button id=b \
                    onclick=\"console.error('clicked');document.title=i.value\">go</button>";
        browser.open(page);
        browser.keys("#i", "two");
        browser.click("#b");
        assert_eq!(browser.wait_until("return document.title !== 'one' && document.title"), "two");
        assert_eq!(browser.text("#b"), "go");
        assert!(browser.console().iter().any(|line| line.contains("clicked")));
        assert_eq!(
            browser.wait_for_promise("return Promise.resolve(arguments[0] + 1)", &[json!(4)]),
            5
        );
        browser.open("data:text/html,<p>next");
        browser.back();
        assert_eq!(browser.text("#b"), "go");
        let folder = tempfile::tempdir().unwrap();
        let picture = folder.path().join("seen.png");
        browser.screenshot(&picture);
        assert!(std::fs::read(picture).unwrap().starts_with(b"\x89PNG"));
    }
}
