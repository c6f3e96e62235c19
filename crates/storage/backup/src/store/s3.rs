//! Buckets of S3 servers; what locks objects in them is in `lock`.

mod lock;

use super::http::{Answer, Http};
use super::rest::{body_of, range_header};
use super::{Name, Store, StoreError, after, id_of, size_of};
use crate::Error;
use crate::secrets::{S3Secrets, Secrets};
use crate::throttle::Throttle;
use crate::time_limits::TimeLimits;
use base64ct::{Base64, Encoding};
use braid_pool::upkeep::LockSpan;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use md5::{Digest, Md5};
use rustic_core::{FileType, Id};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ureq::http::Method;
use url::Url;

/// A bucket of an S3 server.
pub(super) struct S3Store {
    http: Http,
    endpoint: Url,
    bucket: String,
    /// With a slash at its end, unless it is empty.
    prefix: String,
    secrets: Secrets,
    known: Mutex<Arc<Known>>,
    /// How many seconds the server's clock is ahead of ours.
    ahead: AtomicI64,
    /// What is written is locked for so long.
    lock: Option<LockSpan>,
}

struct Known {
    bucket: Bucket,
    credentials: Credentials,
}

/// A signature's.
const VALID: Duration = Duration::from_secs(3600);
/// No list needs more pages: a thousand files each.
const MOST_PAGES: usize = 1_000_000;

impl S3Store {
    pub(super) fn new(
        endpoint: &Url,
        bucket: &str,
        prefix: &str,
        secrets: Secrets,
        throttle: Arc<Throttle>,
        limits: TimeLimits,
    ) -> Result<S3Store, Error> {
        let known = known(endpoint, bucket, secrets.s3()?)?;
        Ok(S3Store {
            http: Http::new(endpoint, throttle, limits),
            endpoint: endpoint.clone(),
            bucket: bucket.to_owned(),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            secrets,
            known: Mutex::new(Arc::new(known)),
            ahead: AtomicI64::new(0),
            lock: None,
        })
    }

    pub(super) fn locking(self, lock: Option<LockSpan>) -> S3Store {
        S3Store { lock, ..self }
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn object(&self, name: &Name) -> String {
        format!("{}{}", self.prefix, name.path())
    }

    /// A server may refuse because clocks differ, or because credentials have expired: both are
    /// corrected if possible, and then another attempt is worthwhile.
    fn refusal(&self, answer: &Answer) -> StoreError {
        let refusal = answer.refusal();
        let StoreError::Final(said) = &refusal else { return refusal };
        if said.contains("RequestTimeTooSkewed") && self.follow_clock(answer) {
            return StoreError::Passing("the clocks differ; going by the server's".to_owned());
        }
        if matches!(answer.status.as_u16(), 400 | 401 | 403) && self.renew() {
            return StoreError::Passing(format!("{said}; trying the new credentials"));
        }
        // The body didn't match its digest: it was damaged in transit.
        if said.contains("BadDigest") {
            return StoreError::Passing(said.clone());
        }
        refusal
    }

    /// As [`S3Store::refusal`], with the permission that is needed.
    fn refusal_of(&self, answer: &Answer, permission: &str) -> StoreError {
        match self.refusal(answer) {
            StoreError::Final(said) if answer.status.as_u16() == 403 => {
                StoreError::Final(format!("{said} This needs {permission}."))
            }
            other => other,
        }
    }

    fn follow_clock(&self, answer: &Answer) -> bool {
        let date = answer.headers.get("date").and_then(|it| it.to_str().ok());
        let theirs = date.and_then(|it| jiff::fmt::rfc2822::parse(it).ok());
        let Some(theirs) = theirs else { return false };
        let ahead = theirs.timestamp().as_second() - Timestamp::now().as_second();
        self.ahead.swap(ahead, Ordering::Relaxed).abs_diff(ahead) > 1
    }

    /// Whether there are others now.
    fn renew(&self) -> bool {
        let Ok(secrets) = self.secrets.s3() else { return false };
        let Ok(new) = known(&self.endpoint, &self.bucket, secrets) else { return false };
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if new.credentials == known.credentials {
            return false;
        }
        *known = Arc::new(new);
        true
    }

    fn ask<'a, A: S3Action<'a>>(
        &self,
        method: Method,
        action: &A,
        headers: &[(&str, String)],
        content: &[Bytes],
        expected: u64,
    ) -> Result<Answer, StoreError> {
        let url = action.sign_with_time(VALID, &self.now());
        self.http.ask(method, &url, headers, content, expected)
    }
}

fn known(endpoint: &Url, bucket: &str, secrets: S3Secrets) -> Result<Known, Error> {
    // With the bucket in the path every server knows it.
    let bucket = Bucket::new(endpoint.clone(), UrlStyle::Path, bucket.to_owned(), secrets.region)
        .map_err(|error| Error::Refused(format!("{endpoint}: {error}")))?;
    let (key, secret) = (secrets.key, secrets.secret.as_str());
    let credentials = match secrets.token {
        Some(token) => Credentials::new_with_token(key, secret, token),
        None => Credentials::new(key, secret),
    };
    Ok(Known { bucket, credentials })
}

impl Store for S3Store {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed));
        Timestamp::now().checked_add(ahead).unwrap_or_else(|_| Timestamp::now())
    }

    fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        // A list that is behind would have what is there prepared anew.
        if kind == FileType::Config {
            return match self.read(&Name::new(kind, &Id::default()), None) {
                Ok(content) => Ok(vec![(Id::default(), size_of(content.len() as u64)?)]),
                // Nothing is prepared yet, the bucket neither.
                Err(StoreError::Absent) => Ok(vec![]),
                Err(other) => Err(other),
            };
        }
        let known = self.known();
        let prefix = format!("{}{}", self.prefix, kind.dirname());
        let mut all = vec![];
        let mut token = None;
        for _ in 0..MOST_PAGES {
            let mut action = known.bucket.list_objects_v2(Some(&known.credentials));
            action.with_prefix(prefix.clone());
            if let Some(token) = Option::<String>::take(&mut token) {
                action.with_continuation_token(token);
            }
            let answer = self.ask(Method::GET, &action, &[], &[], 1 << 20)?;
            if answer.status.as_u16() != 200 {
                return match self.refusal(&answer) {
                    StoreError::Absent => {
                        Err(StoreError::Final(format!("there is no bucket {}", self.bucket)))
                    }
                    other => Err(other),
                };
            }
            let text = String::from_utf8_lossy(&answer.body);
            let page = ListObjectsV2::parse_response(&text)
                .map_err(|_| StoreError::Passing("its list can't be read".to_owned()))?;
            for object in &page.contents {
                let name = object.key.rsplit('/').next().unwrap_or_default();
                if let Some(id) = id_of(name) {
                    all.push((id, size_of(object.size.unwrap_or(0))?));
                }
            }
            token = page.next_continuation_token;
            if token.is_none() {
                return Ok(all);
            }
        }
        Err(StoreError::Final("its list has no end".to_owned()))
    }

    fn read(&self, name: &Name, part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let known = self.known();
        let object = self.object(name);
        let action = known.bucket.get_object(Some(&known.credentials), &object);
        let headers = range_header(part.as_ref());
        let expected = part.as_ref().map_or(64 << 20, |part| part.end - part.start);
        let answer = self.ask(Method::GET, &action, &headers, &[], expected)?;
        if !answer.status.is_success() {
            return Err(self.refusal(&answer));
        }
        body_of(answer, part)
    }

    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
        let known = self.known();
        let object = self.object(name);
        let mut hasher = Md5::new();
        content.iter().for_each(|piece| hasher.update(piece));
        let digest = hasher.finalize();
        let md5 = Base64::encode_string(&digest);
        let mut action = known.bucket.put_object(Some(&known.credentials), &object);
        action.headers_mut().insert("content-md5", md5.clone());
        let mut headers = vec![("content-md5", md5)];
        if let Some(span) = self.lock {
            let until = lock::written(after(self.now(), span.at_once()));
            for (name, value) in
                [(lock::MODE_HEADER, lock::MODE.to_owned()), (lock::UNTIL_HEADER, until)]
            {
                action.headers_mut().insert(name, value.clone());
                headers.push((name, value));
            }
        }
        let answer = self.ask(Method::PUT, &action, &headers, content, 0)?;
        if !answer.status.is_success() {
            return Err(match self.refusal(&answer) {
                StoreError::Absent => {
                    StoreError::Final(format!("there is no bucket {}", self.bucket))
                }
                other => other,
            });
        }
        let etag = answer.headers.get("etag").and_then(|it| it.to_str().ok()).unwrap_or_default();
        let etag = etag.trim_matches('"');
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if etag.eq_ignore_ascii_case(&hex) {
            return Ok(());
        }
        // Of what a server encrypts the ETag is another; and one that damages what it stores has
        // another, too. To read it tells.
        let there = self.read(name, None)?;
        let mut rest = &there[..];
        let same = content.iter().all(|piece| match rest.split_at_checked(piece.len()) {
            Some((head, tail)) => {
                rest = tail;
                head == &piece[..]
            }
            None => false,
        });
        if same && rest.is_empty() {
            return Ok(());
        }
        Err(StoreError::Passing("it has stored something else than it was sent".to_owned()))
    }

    fn remove(&self, name: &Name) -> Result<(), StoreError> {
        let known = self.known();
        let object = self.object(name);
        let action = known.bucket.delete_object(Some(&known.credentials), &object);
        let answer = self.ask(Method::DELETE, &action, &[], &[], 0)?;
        match answer.status.as_u16() {
            200..=299 | 404 => Ok(()),
            // Also what credentials that may only write get.
            403 => Err(match self.refusal(&answer) {
                StoreError::Final(_) => StoreError::Forbidden(format!(
                    "this server doesn't let it be removed: {}; it is locked, or these credentials \
                     lack s3:DeleteObject",
                    answer.said()
                )),
                other => other,
            }),
            _ => Err(self.refusal(&answer)),
        }
    }

    fn create(&self) -> Result<(), StoreError> {
        let known = self.known();
        let answer = self.ask(
            Method::HEAD,
            &known.bucket.head_bucket(Some(&known.credentials)),
            &[],
            &[],
            0,
        )?;
        if answer.status.is_success() {
            return Ok(());
        }
        if answer.status.as_u16() != 404 {
            return Err(self.refusal(&answer));
        }
        let mut action = known.bucket.create_bucket(&known.credentials);
        let mut headers = vec![];
        if self.lock.is_some() {
            action.headers_mut().insert(lock::BUCKET_HEADER, "true");
            headers.push((lock::BUCKET_HEADER, "true".to_owned()));
        }
        let answer = self.ask(Method::PUT, &action, &headers, &[], 0)?;
        if answer.status.is_success() { Ok(()) } else { Err(self.refusal(&answer)) }
    }

    fn can_lock(&self) -> Result<(), StoreError> {
        let known = self.known();
        // The bucket itself is what has no name in it.
        let mut action = known.bucket.get_object(Some(&known.credentials), "");
        action.query_mut().insert("object-lock", "");
        let answer = self.ask(Method::GET, &action, &[], &[], 1 << 16)?;
        let text = String::from_utf8_lossy(&answer.body);
        match answer.status.as_u16() {
            200..=299 if lock::is_enabled(&text) => Ok(()),
            200..=299 | 404 | 501 => Err(StoreError::Final(format!(
                "the bucket {} has no object lock: it is switched on when a bucket is made, at some \
                 providers also later, with versioning",
                self.bucket
            ))),
            _ => Err(self.refusal_of(&answer, "s3:GetBucketObjectLockConfiguration")),
        }
    }

    fn lock(&self, name: &Name, until: Timestamp) -> Result<Timestamp, StoreError> {
        let known = self.known();
        let object = self.object(name);
        let text = lock::retention(until);
        let md5 = Base64::encode_string(&Md5::digest(text.as_bytes()));
        let mut action = known.bucket.put_object(Some(&known.credentials), &object);
        action.query_mut().insert("retention", "");
        action.headers_mut().insert("content-md5", md5.clone());
        let headers = [("content-md5", md5)];
        let answer = self.ask(Method::PUT, &action, &headers, &[Bytes::from(text)], 1 << 16)?;
        if answer.status.is_success() {
            return Ok(until);
        }
        let refusal = self.refusal_of(&answer, "s3:PutObjectRetention");
        // What is locked for longer is refused, too.
        if matches!(refusal, StoreError::Final(_))
            && let Ok(Some(there)) = self.lock_end(name)
            && there >= until
        {
            return Ok(there);
        }
        Err(refusal)
    }

    fn lock_end(&self, name: &Name) -> Result<Option<Timestamp>, StoreError> {
        let known = self.known();
        let object = self.object(name);
        let mut action = known.bucket.get_object(Some(&known.credentials), &object);
        action.query_mut().insert("retention", "");
        let answer = self.ask(Method::GET, &action, &[], &[], 1 << 16)?;
        let text = String::from_utf8_lossy(&answer.body);
        match answer.status.as_u16() {
            200..=299 => Ok(lock::until_of(&text)),
            404 if text.contains("NoSuchObjectLockConfiguration") => Ok(None),
            _ => Err(self.refusal_of(&answer, "s3:GetObjectRetention")),
        }
    }
}
