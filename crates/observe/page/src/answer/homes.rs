//! Adding and removing homes.

use super::{Body, Form, html, plain, status_of, to};
use crate::Page;
use crate::homes::{Homes, Joined, NewHome, OnceShown, Order};
use crate::view::{self, Viewer};
use braid_control::request::Refusal;
use hyper::{Response, StatusCode};
use std::sync::Arc;

/// Adds a home; the form has been checked.
pub async fn add(page: Arc<Page>, viewer: Viewer, form: Form) -> Response<Body> {
    let wish = NewHome::parse(&form);
    answered(page, viewer, move |homes| homes.add(&wish).map(|line| Done::Line(wish.name, line)))
        .await
}

/// Carries out an order for a home; the form has been checked.
pub async fn change(
    page: Arc<Page>,
    viewer: Viewer,
    order: Order,
    name: String,
    form: Form,
) -> Response<Body> {
    answered(page, viewer, move |homes| carry_out(homes, order, name, &form)).await
}

/// The outcome of a change.
enum Done {
    Line(String, OnceShown),
    /// The word for it on its page.
    Gone(&'static str, String),
}

/// An answer with a join line is in no browser's history, because it answers a form, and in no
/// cache, because no answer is.
async fn answered(
    page: Arc<Page>,
    viewer: Viewer,
    order: impl FnOnce(&dyn Homes) -> Result<Done, Refusal> + Send + 'static,
) -> Response<Body> {
    let asked = tokio::task::spawn_blocking(move || {
        let nowhere = || Refusal::NotFound("there are no homes here".into());
        match page.shown.homes().ok_or_else(nowhere).and_then(order) {
            Ok(Done::Line(name, line)) => {
                html(StatusCode::OK, view::home_line(&page, &viewer, &name, &line))
            }
            Ok(Done::Gone(what, name)) => to(&format!("/homes?{what}={name}")),
            Err(refusal) => {
                html(status_of(&refusal), view::home_unchanged(&page, &viewer, &refusal))
            }
        }
    });
    let cut_off = |_| plain(StatusCode::INTERNAL_SERVER_ERROR, "that was interrupted; see the log");
    asked.await.unwrap_or_else(cut_off)
}

fn carry_out(homes: &dyn Homes, order: Order, name: String, form: &Form) -> Result<Done, Refusal> {
    // Only the name of an existing home becomes part of an address.
    let known = homes.all().into_iter().find(|home| home.name == name);
    let known = known.ok_or_else(|| Refusal::NotFound("no home has this name".into()))?;
    let typed = form.get("typed").map(str::trim) == Some(name.as_str());
    // Shutting out a router that may be in use takes more than a click.
    if known.joined == Joined::Joined && order != Order::Revoke && !typed {
        return Err(Refusal::Invalid(format!(
            "{name} has joined: type its name to confirm that it will be disconnected"
        )));
    }
    Ok(match order {
        Order::Renew => {
            let line = homes.renew(&name, form.get("valid").unwrap_or_default())?;
            Done::Line(name, line)
        }
        Order::Revoke => {
            homes.revoke(&name)?;
            Done::Gone("revoked", name)
        }
        Order::Remove => {
            homes.remove(&name)?;
            Done::Gone("removed", name)
        }
    })
}
