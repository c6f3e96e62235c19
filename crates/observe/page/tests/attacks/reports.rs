//! Files in the reports folder, which anybody may have written.

use crate::server::{HOSTILE, Server};
use braid_control::request::Refusal;
use braid_page::reports::{Part, Report, ReportKind, ReportLine, Reports, Row};

/// Files by somebody who wants them to be more than reports.
pub struct FakeReports;

const PAGE: &str =
    "<script>alert(1)</script><form action=/logout method=post><button>x</button></form>";

impl Reports for FakeReports {
    fn folder(&self) -> String {
        HOSTILE.into()
    }

    fn all(&self) -> Result<Vec<ReportLine>, Refusal> {
        let line = |name: &str, kind| ReportLine {
            name: name.into(),
            kind,
            written_unix: i64::MAX,
            bytes: u64::MAX,
        };
        let figures = format!("{HOSTILE}.json");
        Ok(vec![
            line(&figures, ReportKind::Figures),
            line("b.json", ReportKind::Figures),
            line(&format!("{HOSTILE}.html"), ReportKind::Page),
        ])
    }

    fn open(&self, name: &str) -> Result<Report, Refusal> {
        if name.is_empty() {
            return Err(Refusal::NotFound(HOSTILE.into()));
        }
        let row = Row {
            engine: HOSTILE.into(),
            traffic: HOSTILE.into(),
            runs: usize::MAX,
            goodput_mbps: Some(f64::MAX),
            ratio: Some(-1.0),
            longest_stall_ms: Some(f64::NAN),
            series: vec![(0.0, f64::MAX), (f64::MAX, f64::INFINITY), (-1.0, f64::NAN)],
            ..Row::default()
        };
        let part = Part { scenario: HOSTILE.into(), host: HOSTILE.into(), rows: vec![row] };
        Ok(Report { parts: vec![part], cut_short: true })
    }

    fn page(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        match name {
            "" => Err(Refusal::NotFound(HOSTILE.into())),
            _ => Ok(PAGE.into()),
        }
    }
}

#[test]
fn what_a_report_says_is_text() {
    let server = Server::start();
    for (path, status) in [
        ("/reports", 200),
        ("/reports/open?name=a", 200),
        ("/reports/open?name=%3Cscript%3Ealert(1)%3C/script%3E", 200),
        // No report has an empty name.
        ("/reports/open", 404),
        ("/reports/compare?first=a&second=%3Cscript%3Ealert(1)%3C/script%3E", 200),
        ("/reports/compare?first=a", 404),
    ] {
        let page = server.get(path, "");
        assert_eq!(page.status, status, "{path}");
        assert!(!page.body.contains("<script>alert"), "{path}: {}", page.body);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(server.get("/reports/eat", "").status, 404);
}

#[test]
fn a_page_of_a_report_is_in_a_sandbox() {
    let server = Server::start();
    let page = server.get("/reports/page?name=a.html", "");
    assert_eq!((page.status, page.body.as_str()), (200, PAGE));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.ends_with("sandbox"), "{policy}");
    assert!(!policy.contains("allow-") && !policy.contains("script-src"), "{policy}");
    assert_eq!(page.head.to_lowercase().matches("content-security-policy").count(), 1);
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    let none = server.get("/reports/page", "");
    assert_eq!(none.status, 404);
    assert!(!none.body.contains("<script>alert"));
}
