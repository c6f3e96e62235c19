//! Reports that the lab wrote, and one that somebody else wrote.

use crate::BRAID;
use crate::host::Host;
use crate::served::Served;
use crate::views::Seen;
use crate::way;
use braid_browser::Browser;
use braid_loop_disks::in_private_mounts;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// Tries all that a page can do to the one who opens it.
const HOSTILE: &str = "<!DOCTYPE html><title>report</title><p id=said>nothing</p>\
    <style>body { color: rgb(1, 2, 3); background: url(/favicon.svg) }</style>\
    <script>document.getElementById('said').textContent = 'ran'</script>\
    <img src=/favicon.svg onerror=\"document.title='ran'\">\
    <form method=post action=/logout><button>go</button></form>\
    <iframe src=/disks></iframe><meta http-equiv=refresh content=\"0; url=/disks\">";

#[test]
fn reports_of_the_lab_are_read_and_compared_and_hostile_ones_do_nothing() {
    let name = "reports::reports_of_the_lab_are_read_and_compared_and_hostile_ones_do_nothing";
    in_private_mounts(name, || {
        let Some(browser) = Browser::start() else { return };
        let host = Host::new();
        let folder = host.path("reports");
        fs::create_dir(&folder).unwrap();
        let file = |name: &str| folder.join(name).display().to_string();
        for number in ["1", "2"] {
            let (figures, page) =
                (file(&format!("{number}.json")), file(&format!("{number}.html")));
            let mut lab = Command::new(BRAID);
            lab.args([
                "lab",
                "run",
                "two-gigabit",
                "--engine",
                "ecmp",
                "--seconds",
                "2",
                "--no-baseline",
            ]);
            let output = lab.args(["--json", &figures, "--report", &page]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        fs::write(file("hostile.html"), HOSTILE).unwrap();
        fs::write(file("hostile.json"), "{\"scenario\": \"<script>\"}").unwrap();
        let served = Served::with(&host, &["--reports", &folder.display().to_string()]);
        let seen = Seen::at(&browser, way::to_socket(&served.socket));
        let count = |what: &str| {
            let script = format!("return document.querySelectorAll({what:?}).length");
            browser.run(&script, &[]).as_u64().unwrap()
        };

        seen.open("/reports");
        seen.judge("reports");
        assert_eq!(count("tbody tr"), 6);
        let choose = "document.querySelector('[name=first]').value = '1.json'; \
                      document.querySelector('[name=second]').value = '2.json'";
        browser.run(choose, &[]);
        browser.click("main button");
        browser.wait_until("return document.body.textContent.includes('Second by first')");
        seen.judge("reports-compared");
        assert!(count("tbody tr") >= 1 && count(".chart") >= 1);
        seen.open("/reports/open?name=1.json");
        seen.judge("report");
        assert!(count(".chart") >= 1);
        seen.open("/reports/open?name=hostile.json");
        assert!(browser.text("main").contains("isn't a result"));
        let noted = browser.console();
        assert!(noted.iter().all(|line| line.contains("status of 400")), "{noted:?}");

        seen.open("/reports/page?name=1.html");
        assert!(count("svg") >= 1);
        // Its style counts, which is in it.
        let width =
            browser.run("return getComputedStyle(document.querySelector('main')).maxWidth", &[]);
        assert_eq!(width, "980px");
        assert_eq!(browser.console(), Vec::<String>::new());

        seen.open("/reports/page?name=hostile.html");
        assert_eq!(browser.text("#said"), "nothing");
        assert_eq!(browser.run("return document.title", &[]), "report");
        assert_eq!(browser.run("return window.origin", &[]), json!("null"), "an origin of its own");
        browser.click("button");
        assert!(browser.url().ends_with("hostile.html"), "{}", browser.url());
        let asked = browser.run("return performance.getEntriesByType('resource').length", &[]);
        assert_ne!(asked, Value::Null);
        let refused = browser.console();
        for what in ["script", "form", "img-src", "frame"] {
            let told = refused.iter().any(|line| line.to_lowercase().contains(what));
            assert!(told, "{what} was refused: {refused:#?}");
        }
    });
}
