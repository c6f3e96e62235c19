//! One request and its answer: who asks, whether they may, and what they get.

// Happens at most once per request.
#![allow(clippy::result_large_err)]

mod homes;
mod reports;
mod snapshots;

use crate::access::{Host, Token, host, password};
use crate::body::Body;
use crate::form::{Form, link_change};
use crate::homes::Order;
use crate::live::Watching;
use crate::view::{self, Subject, Viewer};
use crate::{Doors, Page};
use braid_control::measured::NewMeasure;
use braid_control::request::{NewLogin, Refusal, UiRole};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use maud::Markup;
use percent_encoding::percent_decode_str;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A user who may open the socket's file.
    Unix,
    /// Somebody at this address.
    Tcp(IpAddr),
}

/// Maximum size of a form.
const FORM_BYTES: usize = 16 * 1024;
const FORM_WITHIN: Duration = Duration::from_secs(10);
/// Maximum length of a name; longer ones are unknown.
const NAME_BYTES: usize = 200;

/// Only our scripts and styles, nothing from elsewhere, and no embedding in frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";
const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // With `no-referrer` browsers send forms with `Origin: null` (Fetch, section 3.2).
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Answers.
pub async fn answer(page: Arc<Page>, client: Client, request: Request<Incoming>) -> Response<Body> {
    let mut response = match route(page, client, request).await {
        Ok(response) | Err(response) => response,
    };
    for (name, value) in HEADERS {
        // Foreign content already has a stricter policy.
        if let Entry::Vacant(entry) = response.headers_mut().entry(*name) {
            entry.insert(HeaderValue::from_static(value));
        }
    }
    let cached = response.headers().contains_key(header::CACHE_CONTROL);
    if !cached {
        let none = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, none);
    }
    response
}

/// An answer, or an early one that ends processing.
type Outcome = Result<Response<Body>, Response<Body>>;

async fn route(page: Arc<Page>, client: Client, request: Request<Incoming>) -> Outcome {
    if is_order_of_a_link(client, &request) {
        return order_of_a_link(&page, request).await;
    }
    let asked_for = asked_for(&page, &request)?;
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let query = Form::parse(request.uri().query().unwrap_or_default().as_bytes());
    if let (&Method::GET | &Method::HEAD, [name]) = (request.method(), parts.as_slice())
        && let Some(asset) = asset_of(name)
    {
        return Ok(asset);
    }
    match (request.method().clone(), parts.as_slice()) {
        (Method::GET, ["login"]) => {
            let message = None;
            return Ok(html(StatusCode::OK, view::login(&page.settings, message)));
        }
        (Method::GET, ["login", token]) => return Ok(log_in_by_link(&page, token)),
        (Method::POST, ["login"]) => {
            let form = form(request).await?;
            return log_in(page, client, form).await;
        }
        _ => {}
    }
    let who = who(&page, client, asked_for, request.headers());
    let Some(who) = who else { return Ok(to("/login")) };
    match *request.method() {
        Method::GET => get(page, &who, &parts, query, request.headers()).await,
        Method::POST => post(page, &who, &parts, query, request).await,
        Method::HEAD => Ok(plain(StatusCode::NOT_FOUND, "no such page")),
        _ => Ok(plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST")),
    }
}

/// Static parts of pages, for everybody.
fn asset_of(name: &str) -> Option<Response<Body>> {
    match name {
        "style.css" => Some(asset(view::STYLE, "text/css")),
        "page.js" => Some(asset(view::SCRIPT, "text/javascript")),
        "favicon.svg" => Some(asset(view::ICON, "image/svg+xml")),
        // Browsers request it on pages without an icon, such as the manual's.
        "favicon.ico" => Some(to("/favicon.svg")),
        _ => None,
    }
}

/// Answers a `GET` of a user who is logged in.
async fn get(
    page: Arc<Page>,
    who: &Who,
    parts: &[&str],
    query: Form,
    #[cfg_attr(not(feature = "manual"), allow(unused_variables))] headers: &HeaderMap,
) -> Outcome {
    match parts {
        ["live"] => watch(page, who, &query),
        #[cfg(feature = "manual")]
        ["manual", parts @ ..] => Ok(manual(&all_decoded(parts), headers)),
        ["traffic", ..] => {
            who.must_be_known(&page)?;
            Ok(show(page, who.viewer(), all_decoded(parts), query).await)
        }
        ["reports", "page"] => Ok(reports::page(page, query).await),
        // Being allowed to look at the host doesn't include reading everybody's files.
        ["snapshots", what, ..] => {
            who.must_be_admin(&page, "To browse a snapshot, log in as admin.")?;
            Ok(snapshots::show(page, who.viewer(), what, query).await)
        }
        parts => Ok(show(page, who.viewer(), all_decoded(parts), query).await),
    }
}

/// Answers a `POST` of a user who is logged in.
async fn post(
    page: Arc<Page>,
    who: &Who,
    parts: &[&str],
    query: Form,
    request: Request<Incoming>,
) -> Outcome {
    Ok(match parts {
        ["snapshots", "restore"] => {
            who.admins_form(&page, request, "To restore something, log in as admin.").await?;
            snapshots::restore(page, who.viewer(), query).await
        }
        ["new-home"] => {
            let message = "To add a home, log in as admin.";
            let form = who.admins_form(&page, request, message).await?;
            homes::add(page, who.viewer(), form).await
        }
        ["homes", name, order] => {
            let Some(order) = Order::parse(order) else {
                return Err(plain(StatusCode::NOT_FOUND, "no such page"));
            };
            let message = "To change who may connect, log in as admin.";
            let form = who.admins_form(&page, request, message).await?;
            homes::change(page, who.viewer(), order, decoded(name), form).await
        }
        ["logout"] => {
            let form = form(request).await?;
            who.check_form(&form)?;
            if let Some(token) = &who.session {
                page.doors().sessions.end(token);
            }
            to("/login")
        }
        ["measure"] => {
            let form = who.admins_form(&page, request, "To measure, log in as admin.").await?;
            measure(page, who.viewer(), form).await
        }
        ["links", name] => {
            let message = "To change something, log in as admin.";
            let form = who.admins_form(&page, request, message).await?;
            change_link(page, who.viewer(), decoded(name), form).await
        }
        _ => plain(StatusCode::NOT_FOUND, "no such page"),
    })
}

/// Live updates of an open page.
fn watch(page: Arc<Page>, who: &Who, query: &Form) -> Outcome {
    let (token, subject) = (who.session.clone(), Subject::parse(query));
    if subject == Subject::Traffic {
        who.must_be_known(&page)?;
    }
    match page.live.watch(page.clone(), subject, token) {
        Watching::Begun(body) => {
            let mut response = Response::new(body);
            let kind = HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            Ok(response)
        }
        Watching::TooMany => Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open")),
    }
}

/// Whether this is `braid ui login`, at the socket of a page without a tunnel, like at a tunnel's
/// control socket. A browser, even over a forwarded socket, sends where its request comes from.
fn is_order_of_a_link(client: Client, request: &Request<Incoming>) -> bool {
    let from_browser = request.headers().contains_key(header::ORIGIN)
        || request.headers().contains_key("sec-fetch-site");
    client == Client::Unix
        && request.method() == Method::POST
        && request.uri().path() == "/v1/ui/login"
        && !from_browser
}

async fn order_of_a_link(page: &Page, request: Request<Incoming>) -> Outcome {
    let body = body(request).await?;
    let Ok(new) = serde_json::from_slice::<NewLogin>(&body) else {
        return Err(plain(StatusCode::BAD_REQUEST, "a role is needed: reader or admin"));
    };
    let Some(at) = page.settings.at else {
        return Err(plain(StatusCode::NOT_FOUND, "this page isn't served to browsers"));
    };
    let link = serde_json::to_vec(&page.login_link(new.role, at)).unwrap_or_default();
    let mut response = respond(StatusCode::OK, link.into());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// The host name that was asked for; refuses possible DNS rebinding, and changes sent by other
/// sites' pages.
fn asked_for(page: &Page, request: &Request<Incoming>) -> Result<Host, Response<Body>> {
    let only = |name: HeaderName| {
        let mut values = request.headers().get_all(name).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        value.filter(|_| values.next().is_none())
    };
    let refuse = |what| plain(StatusCode::MISDIRECTED_REQUEST, what);
    let Some(header) = only(header::HOST) else {
        return Err(refuse("a request has one Host header"));
    };
    let Some(asked_for) = host(header, &page.settings.hosts) else {
        return Err(refuse(
            "the page doesn't accept this host name; use its address, or add the name to [ui] \
             hosts",
        ));
    };
    // In the form that only proxies use, the host may be another.
    if request.uri().authority().is_some_and(|authority| authority.as_str() != header) {
        return Err(refuse("the request's address and its Host header differ"));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(asked_for);
    }
    let forbid = || plain(StatusCode::FORBIDDEN, "this request didn't come from this page");
    let site = HeaderName::from_static("sec-fetch-site");
    if request.headers().contains_key(&site) && only(site) != Some("same-origin") {
        return Err(forbid());
    }
    let origin = only(header::ORIGIN).ok_or_else(forbid)?;
    let host_of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match host_of.is_some_and(|host| host.eq_ignore_ascii_case(header)) {
        true => Ok(asked_for),
        false => Err(forbid()),
    }
}

/// Who asks.
struct Who {
    role: UiRole,
    /// Whether the connection can be overheard.
    is_overheard: bool,
    session: Option<Token>,
    /// The token for forms that change something.
    form_token: Option<Token>,
}

/// Who asks; `None` if they must log in first.
fn who(page: &Page, client: Client, asked_for: Host, headers: &HeaderMap) -> Option<Who> {
    let cookie = cookie_of(headers, &page.cookie());
    let session = cookie.and_then(|token| {
        page.doors().forget_sessions_of_old_passwords(page);
        let session = page.doors().sessions.of(&token, Instant::now())?;
        Some((token, session))
    });
    let is_passed_on = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];
    let is_passed_on = is_passed_on.iter().any(|name| headers.contains_key(*name));
    let at_least = match client {
        Client::Unix => Some(UiRole::Admin),
        // A proxy on this host may speak for anybody.
        Client::Tcp(from) if from.is_loopback() && asked_for == Host::Loopback && !is_passed_on => {
            Some(UiRole::Reader)
        }
        Client::Tcp(_) => None,
    };
    let role = session.as_ref().map(|(_, session)| session.role).max(at_least)?;
    let form_token = match client {
        Client::Unix => Some(page.socket_form_token.clone()),
        Client::Tcp(_) => session.as_ref().map(|(_, session)| session.form_token.clone()),
    };
    let is_overheard = match client {
        // How a proxy is reached isn't known here.
        Client::Unix => false,
        Client::Tcp(from) => !from.is_loopback() && !page.settings.tls,
    };
    Some(Who { role, is_overheard, session: session.map(|(token, _)| token), form_token })
}

impl Who {
    fn viewer(&self) -> Viewer {
        let logged_in = self.session.is_some();
        let (role, is_overheard) = (self.role, self.is_overheard);
        Viewer { role, form_token: self.form_token.clone(), logged_in, is_overheard }
    }

    /// Refuses a form that isn't from one of our pages.
    fn check_form(&self, form: &Form) -> Result<(), Response<Body>> {
        let sent = form.get("form").and_then(Token::parse);
        match sent.is_some() && sent == self.form_token {
            true => Ok(()),
            false => Err(plain(StatusCode::FORBIDDEN, "the form is too old; load its page again")),
        }
    }

    /// Reads a form from one of our pages, sent by an admin.
    async fn admins_form(
        &self,
        page: &Page,
        request: Request<Incoming>,
        message: &str,
    ) -> Result<Form, Response<Body>> {
        let form = form(request).await?;
        self.check_form(&form)?;
        self.must_be_admin(page, message)?;
        Ok(form)
    }

    /// Having an account on this host doesn't entitle to see who talks to whom.
    fn must_be_known(&self, page: &Page) -> Result<(), Response<Body>> {
        if self.form_token.is_some() {
            return Ok(());
        }
        let message = "To see who uses the tunnel, log in.";
        Err(html(StatusCode::FORBIDDEN, view::login(&page.settings, Some(message))))
    }

    fn must_be_admin(&self, page: &Page, message: &str) -> Result<(), Response<Body>> {
        if self.role == UiRole::Admin {
            return Ok(());
        }
        Err(html(StatusCode::FORBIDDEN, view::login(&page.settings, Some(message))))
    }
}

impl Doors {
    /// Ends sessions that were started with a password that has since changed.
    fn forget_sessions_of_old_passwords(&mut self, page: &Page) {
        let written = password::written(&page.settings.password_file);
        if self.passwords_written.is_some() && written != self.passwords_written {
            self.sessions.end_all();
        }
        self.passwords_written = written;
    }
}

async fn log_in(page: Arc<Page>, client: Client, form: Form) -> Outcome {
    let address = match client {
        Client::Tcp(address) => address,
        Client::Unix => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let role = match form.get("role") {
        Some("reader") => UiRole::Reader,
        _ => UiRole::Admin,
    };
    let given = form.get("password").unwrap_or_default().to_owned();
    if let Err(wait) = page.doors().attempts.try_now(address, Instant::now()) {
        let message = format!("Too many attempts. Try again in {} seconds.", wait.as_secs());
        let mut response =
            html(StatusCode::TOO_MANY_REQUESTS, view::login(&page.settings, Some(&message)));
        response.headers_mut().insert(header::RETRY_AFTER, wait.as_secs().into());
        return Ok(response);
    }
    let file = page.settings.password_file.clone();
    let checked =
        tokio::task::spawn_blocking(move || password::is_right(&file, role, &given)).await;
    let message = match checked {
        Ok(Ok(true)) => {
            let mut doors = page.doors();
            doors.forget_sessions_of_old_passwords(&page);
            doors.attempts.succeeded(address);
            return Ok(begin_session(&page, &mut doors, role));
        }
        Ok(Ok(false)) => "That is not the password.".to_owned(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "nobody can log in to the page");
            "The passwords can't be read; the log says why.".to_owned()
        }
        Err(_) => "That was interrupted; try again.".to_owned(),
    };
    tracing::info!(%address, role = role.as_str(), "a login to the page failed");
    Ok(html(StatusCode::UNAUTHORIZED, view::login(&page.settings, Some(&message))))
}

fn log_in_by_link(page: &Page, token: &str) -> Response<Body> {
    let mut doors = page.doors();
    let role = Token::parse(token).and_then(|token| doors.one_time.redeem(&token, Instant::now()));
    match role {
        Some(role) => begin_session(page, &mut doors, role),
        None => {
            let command = &page.settings.login_command;
            let message =
                format!("This link has been used or has expired. `{command}` makes another.");
            html(StatusCode::UNAUTHORIZED, view::login(&page.settings, Some(&message)))
        }
    }
}

fn begin_session(page: &Page, doors: &mut Doors, role: UiRole) -> Response<Body> {
    let (token, _) = doors.sessions.begin(role, Instant::now());
    let mut response = to("/");
    response.headers_mut().append(header::SET_COOKIE, set_cookie(page, &token));
    response
}

/// Neither scripts nor other sites' pages can read it.
fn set_cookie(page: &Page, token: &Token) -> HeaderValue {
    let (name, token) = (page.cookie(), token.as_str());
    let secure = if page.settings.tls { "; Secure" } else { "" };
    let text = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn cookie_of(headers: &HeaderMap, name: &str) -> Option<Token> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).and_then(|(_, token)| Token::parse(token))
}

/// A page, rendered on a thread that may wait for history.
async fn show(page: Arc<Page>, viewer: Viewer, parts: Vec<String>, query: Form) -> Response<Body> {
    let render = move || {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        view::show(&page, &viewer, &parts, &query)
    };
    match tokio::task::spawn_blocking(render).await {
        Ok(Some(shown)) => {
            html(shown.refusal.as_ref().map_or(StatusCode::OK, status_of), shown.markup)
        }
        Ok(None) => plain(StatusCode::NOT_FOUND, "no such page"),
        Err(_) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be rendered; see the log")
        }
    }
}

#[cfg(feature = "manual")]
fn manual(parts: &[String], asked: &HeaderMap) -> Response<Body> {
    use crate::manual::Given;
    match crate::manual::given(parts, asked) {
        None => plain(StatusCode::NOT_FOUND, "no such page"),
        Some(Given::At(place)) => to(place),
        Some(Given::Same) => respond(StatusCode::NOT_MODIFIED, Bytes::new()),
        Some(Given::File(content, headers)) => {
            let mut response = respond(StatusCode::OK, content);
            response.headers_mut().extend(headers);
            response
        }
    }
}

async fn change_link(page: Arc<Page>, viewer: Viewer, name: String, form: Form) -> Response<Body> {
    let set = move || {
        let done = link_change(&form).map_err(Refusal::Invalid).and_then(|change| {
            let change = match page.shown.link(&name) {
                Some(wish) => wish.news(change),
                None => change,
            };
            page.shown.set_link(&name, change)
        });
        let markup =
            done.as_ref().err().map(|refusal| view::refused(&page, &viewer, &name, refusal));
        (name, done, markup)
    };
    match tokio::task::spawn_blocking(set).await {
        Ok((name, Ok(()), _)) => to(&format!("/links/{name}?changed=1")),
        Ok((_, Err(refusal), markup)) => html(status_of(&refusal), markup.unwrap_or_default()),
        Err(_) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the change was interrupted; see the log")
        }
    }
}

fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::NotFound(_) => StatusCode::NOT_FOUND,
        Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
        Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn measure(page: Arc<Page>, viewer: Viewer, form: Form) -> Response<Body> {
    let link = form.get("link").filter(|link| !link.is_empty()).map(str::to_owned);
    let metered = form.get("metered") == Some("yes");
    let begin = move || {
        let begun = page.shown.measure(&NewMeasure { link, metered, seconds: None });
        begun.map_err(|refusal| view::not_measured(&page, &viewer, &refusal))
    };
    match tokio::task::spawn_blocking(begin).await {
        Ok(Ok(())) => to("/doctor#speed"),
        Ok(Err(markup)) => html(StatusCode::CONFLICT, markup),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "that was interrupted; see the log"),
    }
}

async fn form(request: Request<Incoming>) -> Result<Form, Response<Body>> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_none_or(|kind| !kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not a form"));
    }
    body(request).await.map(|body| Form::parse(&body))
}

async fn body(request: Request<Incoming>) -> Result<Bytes, Response<Body>> {
    let body = Limited::new(request.into_body(), FORM_BYTES).collect();
    match tokio::time::timeout(FORM_WITHIN, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(closing(StatusCode::PAYLOAD_TOO_LARGE, "that form is too large")),
        Err(_) => Err(closing(StatusCode::REQUEST_TIMEOUT, "the form arrived too slowly")),
    }
}

/// Decodes a part of a path; invalid text becomes a name that nothing has.
fn decoded(part: &str) -> String {
    let text = percent_decode_str(part).decode_utf8_lossy();
    if text.len() > NAME_BYTES { String::new() } else { text.into_owned() }
}

fn all_decoded(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| decoded(part)).collect()
}

fn html(status: StatusCode, markup: Markup) -> Response<Body> {
    let mut response = respond(status, markup.into_string().into());
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = respond(status, text.into());
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// After this answer the connection is closed.
fn closing(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = plain(status, text);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Its address contains a hash of it, so it never changes.
fn asset(text: &'static str, kind: &'static str) -> Response<Body> {
    let mut response = respond(StatusCode::OK, text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let cache = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    response
}

fn to(place: &str) -> Response<Body> {
    let mut response = respond(StatusCode::SEE_OTHER, Bytes::new());
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

fn respond(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_path_is_taken_whole() {
        assert_eq!(decoded("a+b%20c&d=e%2Fé"), "a+b c&d=e/é");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded(&"x".repeat(NAME_BYTES + 1)), "");
    }
}
