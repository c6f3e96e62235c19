use crate::store::{Entry, Expected, Life, Store, StoreError, Written};
use base64ct::{Base64, Encoding};
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// How to reach a fleet's etcd.
#[derive(Clone, Default)]
pub struct EtcdAccess {
    /// Its members, `http://HOST:PORT` or `https://HOST:PORT`: any of them will do.
    pub endpoints: Vec<String>,
    /// What all keys begin with, such as `braid/`.
    pub prefix: String,
    /// PEM file with the CA to trust for https; without it none is trusted.
    pub ca_file: Option<PathBuf>,
    /// PEM files of this concentrator's certificate and key, if etcd requires one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// User and password, if etcd requires them.
    pub user: Option<(String, String)>,
}

/// A store in etcd (v3.4 and later), accessed through the JSON gateway of its members.
pub struct Etcd {
    access: EtcdAccess,
    agent: Agent,
    /// Index of the member that answered last.
    member: usize,
    token: Option<String>,
    lease: Option<String>,
    /// What was read last: only changes since then are requested.
    copy: Option<Copy>,
}

/// All keys at one revision.
struct Copy {
    of: History,
    /// When all of them were last read.
    whole: Instant,
    entries: BTreeMap<String, (String, i64)>,
}

/// The state that etcd answers from. Restoring a snapshot goes back in it.
#[derive(Clone, PartialEq)]
struct History {
    cluster: String,
    term: i64,
    revision: i64,
}

/// Timeout for one member's answer: above etcd's own election timeout of 1 s, and short enough to
/// ask all of three members within a lease.
const ANSWER: Duration = Duration::from_secs(2);
/// Maximum size of an answer, enough for more than 10,000 homes.
const MOST_BYTES: u64 = 64 << 20;
/// How often everything is read again, whatever the changes say.
const WHOLE_EVERY: Duration = Duration::from_secs(60);
/// gRPC codes (<https://grpc.io/docs/guides/status-codes/>) that mean: not now, perhaps elsewhere.
const NOT_NOW: [i64; 5] = [1, 4, 8, 13, 14];
const NOT_FOUND: i64 = 5;
const UNAUTHENTICATED: i64 = 16;
const INVALID: i64 = 3;

impl Etcd {
    /// Reads the files that `access` names; doesn't connect yet.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the file that can't be read, or if there is no endpoint.
    pub fn open(access: EtcdAccess) -> Result<Etcd, StoreError> {
        if access.endpoints.is_empty() {
            return Err(StoreError::Refused("no endpoint is given".to_owned()));
        }
        let agent = agent(&access)?;
        Ok(Etcd { access, agent, member: 0, token: None, lease: None, copy: None })
    }

    /// Asks one member after another, once each.
    fn ask<T: DeserializeOwned>(&mut self, path: &str, body: &Value) -> Result<T, Answer> {
        let mut last = Answer::Error(StoreError::Unreachable("no member answers".to_owned()));
        for _ in 0..self.access.endpoints.len() {
            match self.ask_member(path, body) {
                Err(Answer::Error(StoreError::Unreachable(why))) => {
                    last = Answer::Error(StoreError::Unreachable(why));
                    self.member = (self.member + 1) % self.access.endpoints.len();
                }
                other => return other,
            }
        }
        Err(last)
    }

    /// Gets a new token if the previous one has expired.
    fn ask_member<T: DeserializeOwned>(&mut self, path: &str, body: &Value) -> Result<T, Answer> {
        for fresh in [false, true] {
            if let Some((name, password)) = &self.access.user
                && self.token.is_none()
            {
                let body = json!({ "name": name, "password": password });
                let answer: Token = self.post("auth/authenticate", &body)?;
                self.token = Some(answer.token);
            }
            match self.post(path, body) {
                Err(Answer::Unauthenticated(_)) if !fresh && self.access.user.is_some() => {
                    self.token = None;
                }
                other => return other,
            }
        }
        Err(Answer::Error(StoreError::Refused("user or password is wrong".to_owned())))
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Answer> {
        let endpoint = self.access.endpoints.get(self.member).map_or("", String::as_str);
        let silent =
            |why: String| Answer::Error(StoreError::Unreachable(format!("{endpoint}: {why}")));
        let url = format!("{}/v3/{path}", endpoint.trim_end_matches('/'));
        let mut request = self.agent.post(&url).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        let answer =
            request.send(body.to_string().as_bytes()).map_err(|error| silent(error.to_string()))?;
        let status = answer.status();
        let mut body = answer.into_body();
        let text = body.with_config().limit(MOST_BYTES).read_to_vec();
        let text = text.map_err(|error| silent(error.to_string()))?;
        if status.is_success() {
            return serde_json::from_slice(&text).map_err(|error| {
                Answer::Error(StoreError::Foreign(format!("{endpoint} is not etcd: {error}")))
            });
        }
        let Ok(Problem { error, code }) = serde_json::from_slice(&text) else {
            // As etcd's gateway answers to a certificate with a common name.
            let text = String::from_utf8_lossy(&text);
            let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
            return Err(Answer::Error(StoreError::Refused(format!(
                "{endpoint} answers {status}: {line:?}"
            ))));
        };
        Err(match code {
            NOT_FOUND => Answer::NotFound,
            // etcd 3.4 reports an old token as invalid argument or unauthenticated.
            UNAUTHENTICATED => Answer::Unauthenticated(error),
            INVALID if error.contains("token") => Answer::Unauthenticated(error),
            code if NOT_NOW.contains(&code) => silent(error),
            _ => Answer::Error(StoreError::Refused(error)),
        })
    }

    /// Keys that have changed since a revision, and the total number of keys.
    fn range(&mut self, after: i64) -> Result<Range, StoreError> {
        let prefix = self.access.prefix.clone();
        // All keys with this prefix: the range up to its successor.
        let mut end = prefix.clone().into_bytes();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        if end.is_empty() {
            end.push(0);
        }
        let body = json!({
            "key": encoded(&prefix), "range_end": Base64::encode_string(&end),
            "min_mod_revision": (after + 1).to_string(),
        });
        self.ask("kv/range", &body).map_err(StoreError::from)
    }

    /// Brings the copy up to date. Returns whether these changes sufficed.
    fn take(&mut self, range: Range, whole: Option<Instant>) -> Result<bool, StoreError> {
        let history = range
            .header
            .history()
            .ok_or_else(|| StoreError::Foreign("etcd's answer has no revision".to_owned()))?;
        let (mut entries, whole) = match (self.copy.take(), whole) {
            (_, Some(now)) => (BTreeMap::new(), now),
            (Some(copy), None) if history.follows(&copy.of) => (copy.entries, copy.whole),
            _ => return Ok(false),
        };
        for Entry { key, value, version } in range.entries(&self.access.prefix)? {
            entries.insert(key, (value, version));
        }
        // Otherwise some were removed, and it isn't known which.
        let complete = range.count.parse() == Ok(entries.len());
        if complete {
            self.copy = Some(Copy { of: history, whole, entries });
        }
        Ok(complete)
    }

    fn key(&self, key: &str) -> String {
        encoded(&format!("{}{key}", self.access.prefix))
    }

    fn transact(
        &mut self,
        key: &str,
        expected: Expected,
        does: &Value,
    ) -> Result<Written, StoreError> {
        // A key that isn't there has the revision 0.
        let revision = match expected {
            Expected::Any => None,
            Expected::Absent => Some(0),
            Expected::Version(version) => Some(version),
        };
        let compare: Vec<Value> = revision
            .map(|revision| {
                json!({ "key": key, "target": "MOD", "result": "EQUAL",
                        "mod_revision": revision.to_string() })
            })
            .into_iter()
            .collect();
        let body = json!({ "compare": compare, "success": [does] });
        match self.ask::<Transacted>("kv/txn", &body) {
            Ok(Transacted { succeeded: true }) => Ok(Written::Done),
            Ok(Transacted { succeeded: false }) => Ok(Written::Conflict),
            // The lease is gone, and so are its keys.
            Err(Answer::NotFound) => {
                self.lease = None;
                Ok(Written::Conflict)
            }
            Err(other) => Err(other.into()),
        }
    }
}

impl Store for Etcd {
    fn read(&mut self) -> Result<Vec<Entry>, StoreError> {
        let recent = self.copy.as_ref().filter(|copy| copy.whole.elapsed() < WHOLE_EVERY);
        let up_to_date = match recent.map(|copy| copy.of.revision) {
            Some(revision) => {
                let range = self.range(revision)?;
                self.take(range, None)?
            }
            None => false,
        };
        if !up_to_date {
            let range = self.range(0)?;
            if !self.take(range, Some(Instant::now()))? {
                return Err(StoreError::Foreign(
                    "etcd's key count doesn't match its answer".to_owned(),
                ));
            }
        }
        let entries = self.copy.iter().flat_map(|copy| &copy.entries);
        let entry = |(key, (value, version)): (&String, &(String, i64))| Entry {
            key: key.clone(),
            value: value.clone(),
            version: *version,
        };
        Ok(entries.map(entry).collect())
    }

    fn write(
        &mut self,
        key: &str,
        value: &str,
        expected: Expected,
        life: Life,
    ) -> Result<Written, StoreError> {
        let key = self.key(key);
        let mut put = json!({ "key": key, "value": encoded(value) });
        if life == Life::Writer {
            let Some(lease) = &self.lease else { return Ok(Written::Conflict) };
            put["lease"] = json!(lease);
        }
        self.transact(&key, expected, &json!({ "request_put": put }))
    }

    fn remove(&mut self, key: &str, expected: Expected) -> Result<Written, StoreError> {
        let key = self.key(key);
        let range = json!({ "key": key });
        self.transact(&key, expected, &json!({ "request_delete_range": range }))
    }

    fn keep_alive(&mut self, lease: Duration) -> Result<bool, StoreError> {
        if let Some(id) = self.lease.clone() {
            let kept: KeptAlive = self.ask("lease/keepalive", &json!({ "ID": id }))?;
            if kept.result.is_some_and(|it| it.ttl.is_some_and(|ttl| ttl != "0")) {
                return Ok(true);
            }
        }
        let body = json!({ "TTL": lease.as_secs().max(1).to_string() });
        let granted: Granted = self.ask("lease/grant", &body)?;
        self.lease = Some(granted.id);
        Ok(false)
    }
}

/// Why there is no usable answer.
enum Answer {
    NotFound,
    Unauthenticated(String),
    Error(StoreError),
}

impl From<Answer> for StoreError {
    fn from(answer: Answer) -> StoreError {
        match answer {
            Answer::NotFound => StoreError::Refused("not found".to_owned()),
            Answer::Unauthenticated(why) => StoreError::Refused(why),
            Answer::Error(error) => error,
        }
    }
}

#[derive(Deserialize)]
struct Problem {
    error: String,
    code: i64,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// Numbers of 64 bits are strings in JSON, and what is zero or empty is left out.
#[derive(Deserialize)]
struct Range {
    header: Header,
    #[serde(default)]
    kvs: Vec<Found>,
    #[serde(default = "zero")]
    count: String,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    cluster_id: String,
    #[serde(default = "zero")]
    raft_term: String,
    #[serde(default = "zero")]
    revision: String,
}

impl Range {
    fn entries(&self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        self.kvs.iter().map(|found| found.read(prefix)).collect()
    }
}

/// Parses etcd's answer to a request for all keys with this prefix.
///
/// # Errors
/// [`StoreError::Foreign`] when it isn't such an answer.
pub fn entries_in(answer: &[u8], prefix: &str) -> Result<Vec<Entry>, StoreError> {
    let range: Range = serde_json::from_slice(answer).map_err(|error| {
        StoreError::Foreign(format!("this is not an answer from etcd: {error}"))
    })?;
    range.entries(prefix)
}

impl Header {
    fn history(&self) -> Option<History> {
        let (term, revision) = (self.raft_term.parse().ok()?, self.revision.parse().ok()?);
        Some(History { cluster: self.cluster_id.clone(), term, revision })
    }
}

impl History {
    fn follows(&self, before: &History) -> bool {
        self.cluster == before.cluster
            && self.term >= before.term
            && self.revision >= before.revision
    }
}

fn zero() -> String {
    "0".to_owned()
}

#[derive(Deserialize)]
struct Found {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

impl Found {
    /// Decodes it, removing the prefix from the key.
    fn read(&self, prefix: &str) -> Result<Entry, StoreError> {
        let text = |text: &str| {
            Base64::decode_vec(text).ok().and_then(|bytes| String::from_utf8(bytes).ok())
        };
        let whole = text(&self.key);
        let key = whole.as_deref().and_then(|key| Some(key.strip_prefix(prefix)?.to_owned()));
        let key = key.ok_or_else(|| {
            StoreError::Foreign(format!(
                "a key that isn't below {prefix:?}: {} in base64",
                self.key
            ))
        })?;
        let value =
            text(&self.value).ok_or_else(|| StoreError::Foreign(format!("{key} isn't text")))?;
        let version = self.mod_revision.parse();
        let version = version.map_err(|_| {
            StoreError::Foreign(format!(
                "{key} has the version {:?}, which is not a number",
                self.mod_revision
            ))
        })?;
        Ok(Entry { key, value, version })
    }
}

#[derive(Deserialize)]
struct Transacted {
    #[serde(default)]
    succeeded: bool,
}

#[derive(Deserialize)]
struct Granted {
    #[serde(rename = "ID")]
    id: String,
}

#[derive(Deserialize)]
struct KeptAlive {
    result: Option<Kept>,
}

#[derive(Deserialize)]
struct Kept {
    #[serde(rename = "TTL")]
    ttl: Option<String>,
}

fn encoded(text: &str) -> String {
    Base64::encode_string(text.as_bytes())
}

fn agent(access: &EtcdAccess) -> Result<Agent, StoreError> {
    let config = Agent::config_builder()
        .timeout_global(Some(ANSWER))
        .max_redirects(0)
        .http_status_as_error(false)
        // A proxy from the environment is for the Internet.
        .proxy(None)
        .user_agent(concat!("braid/", env!("CARGO_PKG_VERSION")));
    if !access.endpoints.iter().any(|endpoint| endpoint.starts_with("https:")) {
        return Ok(config.build().into());
    }
    let read = |file: &PathBuf| {
        std::fs::read(file)
            .map_err(|error| StoreError::Refused(format!("{}: {error}", file.display())))
    };
    let pem = |file: &PathBuf, what: &str| {
        StoreError::Refused(format!("{} contains no {what} in PEM", file.display()))
    };
    let certificates = |file: &PathBuf| -> Result<Vec<Certificate<'static>>, StoreError> {
        let text = read(file)?;
        let found = rustls_pki_types::CertificateDer::pem_slice_iter(&text);
        let found: Result<Vec<_>, _> = found.collect();
        match found {
            Ok(found) if !found.is_empty() => {
                Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
            }
            _ => Err(pem(file, "certificate")),
        }
    };
    let roots = match &access.ca_file {
        Some(file) => certificates(file)?,
        None => Vec::new(),
    };
    let mut tls = TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    if let Some((certificate, key)) = &access.certificate {
        let chain = certificates(certificate)?;
        let text = read(key)?;
        let key = PrivateKey::from_pem(&text).map_err(|_| pem(key, "private key"))?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(config.tls_config(tls.build()).build().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_can_not_be_read_it_is_said_what_it_is() {
        let found = |key: &str, value: &str, version: &str| {
            let found = Found {
                key: encoded(key),
                value: value.to_owned(),
                mod_revision: version.to_owned(),
            };
            found.read("braid/").map_err(|error| error.to_string())
        };
        let value = encoded("{}");
        let whole = Ok(Entry { key: "home/cabin".to_owned(), value: "{}".to_owned(), version: 7 });
        assert_eq!(found("braid/home/cabin", &value, "7"), whole);
        for (result, told) in [
            (found("other/cabin", &value, "7"), "a key that isn't below"),
            (found("braid/home/cabin", "//8=", "7"), "home/cabin isn't text"),
            (found("braid/home/cabin", &value, "x"), "home/cabin has the version \"x\""),
        ] {
            let error = result.unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
