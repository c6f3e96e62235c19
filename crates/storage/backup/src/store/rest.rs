use super::http::{Answer, Http};
use super::{Name, Store, StoreError, id_of, size_of, total};
use crate::Error;
use crate::secrets::Secrets;
use crate::throttle::Throttle;
use crate::time_limits::TimeLimits;
use base64ct::{Base64, Encoding};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use rustic_core::{FileType, Id};
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;
use ureq::http::Method;
use url::Url;

/// A server that speaks restic's REST protocol
/// (<https://restic.readthedocs.io/en/stable/100_references.html#rest-backend>).
pub(super) struct RestStore {
    http: Http,
    url: Url,
    authorization: Option<String>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    size: u64,
}

impl RestStore {
    pub(super) fn new(
        mut url: Url,
        secrets: &Secrets,
        throttle: Arc<Throttle>,
        limits: TimeLimits,
    ) -> Result<RestStore, Error> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let named = url.password().map(|password| (decoded(url.username()), decoded(password)));
        let known = match named {
            Some(pair) => Some(pair),
            None => secrets.rest()?,
        };
        // Both fail for addresses without a host only.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let authorization = known.map(|(user, password)| {
            format!("Basic {}", Base64::encode_string(format!("{user}:{password}").as_bytes()))
        });
        Ok(RestStore { http: Http::new(&url, throttle, limits), url, authorization })
    }

    fn url(&self, name: &Name) -> Url {
        let mut url = self.url.clone();
        let inside = match name.kind {
            FileType::Config => "config".to_owned(),
            // Whatever folders the server makes of it.
            kind => format!("{}/{}", kind.dirname(), name.id.to_hex().as_str()),
        };
        let path = format!("{}{inside}", url.path());
        url.set_path(&path);
        url
    }

    fn ask(
        &self,
        method: Method,
        url: &Url,
        more: &[(&str, String)],
        content: &[Bytes],
        expected: u64,
    ) -> Result<Answer, StoreError> {
        let mut headers = vec![("accept", "application/vnd.x.restic.rest.v2".to_owned())];
        headers.extend(self.authorization.clone().map(|it| ("authorization", it)));
        headers.extend_from_slice(more);
        self.http.ask(method, url, &headers, content, expected)
    }
}

impl Store for RestStore {
    fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        let mut url = self.url.clone();
        if kind == FileType::Config {
            let name = Name::new(kind, &Id::default());
            let answer = self.ask(Method::HEAD, &self.url(&name), &[], &[], 0)?;
            return match answer.status.as_u16() {
                200 => {
                    let length = answer.headers.get("content-length");
                    let length = length.and_then(|it| it.to_str().ok()?.parse().ok());
                    Ok(vec![(Id::default(), length.unwrap_or(0))])
                }
                404 => Ok(vec![]),
                _ => Err(answer.refusal()),
            };
        }
        let path = format!("{}{}/", url.path(), kind.dirname());
        url.set_path(&path);
        let answer = self.ask(Method::GET, &url, &[], &[], 64 << 20)?;
        match answer.status.as_u16() {
            200 => {}
            404 => return Ok(vec![]),
            _ => return Err(answer.refusal()),
        }
        let listed: Vec<Listed> = serde_json::from_slice(&answer.body)
            .map_err(|_| StoreError::Passing("its list can't be read".to_owned()))?;
        let ours = listed.iter().filter_map(|one| Some((id_of(&one.name)?, one.size)));
        ours.map(|(id, size)| Ok((id, size_of(size)?))).collect()
    }

    fn read(&self, name: &Name, part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let headers = range_header(part.as_ref());
        let expected = part.as_ref().map_or(64 << 20, |part| part.end - part.start);
        let answer = self.ask(Method::GET, &self.url(name), &headers, &[], expected)?;
        body_of(answer, part)
    }

    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
        let headers = [("content-type", "application/octet-stream".to_owned())];
        let answer = self.ask(Method::POST, &self.url(name), &headers, content, 0)?;
        if answer.status.is_success() {
            return Ok(());
        }
        // A server that only appends refuses what it has: after a cut it may have all of it.
        if matches!(answer.status.as_u16(), 403 | 409) {
            let there = self.ask(Method::HEAD, &self.url(name), &[], &[], 0)?;
            let length = there.headers.get("content-length");
            let length = length.and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
            if there.status.is_success() && length == Some(total(content)) {
                return Ok(());
            }
        }
        Err(answer.refusal())
    }

    fn remove(&self, name: &Name) -> Result<(), StoreError> {
        let answer = self.ask(Method::DELETE, &self.url(name), &[], &[], 0)?;
        match answer.status.as_u16() {
            200..=299 | 404 => Ok(()),
            401 | 403 | 405 => {
                Err(StoreError::Forbidden("this server doesn't let anything be removed".to_owned()))
            }
            _ => Err(answer.refusal()),
        }
    }

    fn create(&self) -> Result<(), StoreError> {
        let mut url = self.url.clone();
        url.set_query(Some("create=true"));
        let answer = self.ask(Method::POST, &url, &[], &[], 0)?;
        if answer.status.is_success() { Ok(()) } else { Err(answer.refusal()) }
    }
}

pub(super) fn range_header(part: Option<&Range<u64>>) -> Vec<(&'static str, String)> {
    part.map(|part| ("range", format!("bytes={}-{}", part.start, part.end.saturating_sub(1))))
        .into_iter()
        .collect()
}

/// Exactly what was asked for; a server may answer a question for a part with all of it.
pub(super) fn body_of(answer: Answer, part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
    let short = || StoreError::Damaged("it is too short".to_owned());
    match (answer.status.as_u16(), part) {
        (200, None) => Ok(answer.body),
        (206, Some(part)) => {
            let whole = answer.body.len() as u64 == part.end - part.start;
            if whole { Ok(answer.body) } else { Err(short()) }
        }
        (200, Some(part)) => {
            let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
            let (start, end) = (at(part.start), at(part.end));
            if end > answer.body.len() {
                return Err(short());
            }
            Ok(answer.body.slice(start..end))
        }
        _ => Err(answer.refusal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_taken_whole() {
        let store = |address: &str| {
            let (secrets, throttle) = (Secrets::at(None), Arc::new(Throttle::new(None)));
            let limits = TimeLimits::default();
            RestStore::new(address.parse().unwrap(), &secrets, throttle, limits).unwrap()
        };
        let store = store("https://me:p&q+%C3%A9=%2Fx@nas/");
        let expected = format!("Basic {}", Base64::encode_string("me:p&q+é=/x".as_bytes()));
        assert_eq!(store.authorization, Some(expected));
        assert_eq!(store.url.as_str(), "https://nas/");
    }
}
