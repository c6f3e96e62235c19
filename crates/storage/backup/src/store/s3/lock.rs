//! S3's object lock as it is said and heard
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectRetention.html>).

use jiff::Timestamp;

/// What else there is, `GOVERNANCE`, whoever has all rights lifts: a thief of such credentials
/// does, too.
pub(super) const MODE: &str = "COMPLIANCE";
pub(super) const MODE_HEADER: &str = "x-amz-object-lock-mode";
pub(super) const UNTIL_HEADER: &str = "x-amz-object-lock-retain-until-date";
/// Of a bucket that is made.
pub(super) const BUCKET_HEADER: &str = "x-amz-bucket-object-lock-enabled";

/// To the second, as all servers read it.
pub(super) fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(super) fn retention(until: Timestamp) -> String {
    format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{MODE}</Mode>\
         <RetainUntilDate>{}</RetainUntilDate></Retention>",
        written(until)
    )
}

/// Of a lock that nobody lifts; nothing of any other.
pub(super) fn until_of(answer: &str) -> Option<Timestamp> {
    (content(answer, "Mode")? == MODE).then(|| content(answer, "RetainUntilDate")?.parse().ok())?
}

pub(super) fn is_enabled(answer: &str) -> bool {
    content(answer, "ObjectLockEnabled") == Some("Enabled")
}

/// What is between the first tags of this name. These answers have no attributes that matter.
fn content<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = answer.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.trim())
}

#[cfg(test)]
mod tests {
    use super::super::super::after;
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn what_is_said_of_a_lock_is_heard_again() {
        let now: Timestamp = "2026-11-26T12:00:00.7Z".parse().unwrap();
        let until = after(now, Duration::from_secs(24 * 3600));
        assert_eq!(written(until), "2026-11-27T12:00:00Z");
        assert_eq!(until_of(&retention(until)), Some("2026-11-27T12:00:00Z".parse().unwrap()));
        let fractions = "<R><Mode>COMPLIANCE</Mode><RetainUntilDate>2030-01-01T00:00:00.000Z</RetainUntilDate></R>";
        assert_eq!(until_of(fractions), Some("2030-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(until_of(&fractions.replace("COMPLIANCE", "GOVERNANCE")), None);
        assert_eq!(until_of("<Error><Code>AccessDenied</Code></Error>"), None);
        assert!(is_enabled("<C><ObjectLockEnabled>Enabled</ObjectLockEnabled></C>"));
        assert!(!is_enabled("<C></C>"));
    }

    proptest! {
        #[test]
        fn nothing_that_a_server_says_breaks_it(text in "(<|>|/|Mode|RetainUntilDate|COMPLIANCE|[0-9T:Z-]|é)*") {
            let _ = (until_of(&text), is_enabled(&text));
        }
    }
}
