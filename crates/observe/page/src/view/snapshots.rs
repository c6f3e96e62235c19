use super::figures::{moment, size};
use super::{Body, Viewer};
use crate::form::Form;
use crate::snapshots::{
    Changes, Folder, Listing, RestorePlan, RestoreWish, SnapshotPath, Snapshots,
};
use braid_control::request::{Refusal, UiRole};
use form_urlencoded::Serializer;
use maud::{Markup, html};

/// The view below `/snapshots` at this path.
pub fn show(
    snapshots: &dyn Snapshots,
    viewer: &Viewer,
    rest: &[&str],
    query: &Form,
) -> Option<Body> {
    let place = SnapshotPath::parse(query);
    let shown = match rest {
        [] => Ok(all(&snapshots.folders(), &snapshots.targets(), viewer)),
        ["target"] => snapshots.target(&place.folder).map(|folder| target(&folder)),
        ["browse"] => snapshots.entries(&place).map(|listing| browse(&place, &listing)),
        ["compare"] => {
            let [older, newer] = ["older", "newer"].map(|key| query.get(key).unwrap_or_default());
            let changes = snapshots.changes(&place.folder, older, newer);
            changes.map(|changes| compare(&place.folder, older, newer, &changes))
        }
        ["restore"] => Ok(restore(snapshots, viewer, &RestoreWish::parse(query))),
        _ => return None,
    };
    Some(Body::of(shown, refused))
}

/// The page after a restore.
pub fn restored(done: &Result<RestorePlan, Refusal>) -> Markup {
    html! {
        @match done {
            Ok(plan) => p.done role="status" { code { (plan.to) } " is " (plan.way) "."
                @if let Some(aside) = &plan.moved_aside { " The previous file is now " code { (aside) } "." } },
            Err(refusal) => (refused(refusal)),
        }
        p { a href="/snapshots" { "Back to the snapshots" } }
    }
}

fn refused(refusal: &Refusal) -> Markup {
    html! { p.alarm role="alert" { (refusal) } }
}

fn all(folders: &[Folder], targets: &[String], viewer: &Viewer) -> Markup {
    let may_read = viewer.role == UiRole::Admin;
    html! {
        @if folders.is_empty() { p.dim { "There are no snapshots on the pools that are mounted here: "
            code { "braid pool snapshot --into FOLDER SUBVOLUME" } " takes one." } }
        @if !may_read { p.dim { "To browse them, " a href="/login" { "log in as admin" } "." } }
        @for folder in folders { section.card {
            h2 { code { (folder.path) } }
            @if let Some(trouble) = &folder.trouble { p.alarm { (trouble) } }
            @for series in series(folder) { (self::one_series(folder, series, may_read)) }
        } }
        @if !targets.is_empty() { section.card {
            h2 { "Backups" }
            ul.plain { @for target in targets { li {
                @if may_read { a href=(address("target", &[("folder", target)])) { (target) } }
                @else { (target) }
            } } }
        } }
    }
}

/// The backups at a target, of each computer and folder; newest first.
fn target(folder: &Folder) -> Markup {
    html! {
        p { a href="/snapshots" { "Snapshots" } " / " code { (folder.path) } }
        @if folder.snapshots.is_empty() { p.dim { "There are no backups yet." } }
        @for series in series(folder) { section.card {
            h2 { (series) }
            ul.plain { @for snapshot in folder.snapshots.iter().rev().filter(|one| one.series == series) { li {
                a href=(address("browse", &[("folder", &folder.path), ("snapshot", &snapshot.name)])) { (moment(snapshot.taken_unix)) }
                " " span.dim { (snapshot.shown) }
            } } }
        } }
    }
}

/// The subvolumes of which a folder has snapshots.
fn series(folder: &Folder) -> Vec<&str> {
    let mut names: Vec<&str> =
        folder.snapshots.iter().map(|snapshot| snapshot.series.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn one_series(folder: &Folder, series: &str, may_read: bool) -> Markup {
    // Newest first: people usually look for those.
    let of_it: Vec<_> =
        folder.snapshots.iter().rev().filter(|snapshot| snapshot.series == series).collect();
    html! {
        details open[of_it.len() <= 20] {
            summary { strong { (series) } " " span.dim { (of_it.len()) " snapshots" } }
            ul.plain { @for (at, snapshot) in of_it.iter().enumerate() { li {
                @if may_read {
                    a href=(address("browse", &[("folder", &folder.path), ("snapshot", &snapshot.name)])) { (moment(snapshot.taken_unix)) }
                } @else { (moment(snapshot.taken_unix)) }
                " " span.dim { (snapshot.shown) }
                @if let (true, Some(older)) = (may_read, of_it.get(at + 1)) {
                    " " a href=(address("compare", &[("folder", &folder.path), ("older", &older.name), ("newer", &snapshot.name)]))
                        aria-label={ "what changed in " (snapshot.shown) } { "what changed" }
                }
            } } }
            @if may_read && of_it.len() > 1 { (chooser(folder, &of_it)) }
        }
    }
}

/// Selects any two of them.
fn chooser(folder: &Folder, of_it: &[&crate::snapshots::SnapshotLine]) -> Markup {
    let select = |label: &str, name: &str, chosen: usize| {
        html! { label { (label) " " select name=(name) {
            @for (at, snapshot) in of_it.iter().enumerate() {
                option value=(snapshot.name) selected[at == chosen] { (snapshot.shown) }
            }
        } } }
    };
    html! {
        form.fields method="get" action="/snapshots/compare" {
            input type="hidden" name="folder" value=(folder.path);
            (select("From", "older", of_it.len() - 1))
            (select("To", "newer", 0))
            button { "Compare" }
        }
    }
}

fn browse(place: &SnapshotPath, listing: &Listing) -> Markup {
    let below = |name: &str| match place.path.is_empty() {
        true => name.to_owned(),
        false => format!("{}/{name}", place.path),
    };
    let to = |view: &str, path: &str| {
        address(view, &[("folder", &place.folder), ("snapshot", &place.snapshot), ("path", path)])
    };
    html! {
        (crumbs(place))
        section.card {
            @if listing.entries.is_empty() { p.dim { "The folder is empty." } }
            @else { div.wide tabindex="0" role="region" aria-label="Files" { table {
                thead { tr { th { "Name" } th { "Size" } th { "Changed" } th { "Restore" } } }
                tbody { @for entry in &listing.entries { @let path = below(&entry.name); tr {
                    th scope="row" { @match entry.kind {
                        "folder" => a href=(to("browse", &path)) { (entry.shown) "/" },
                        "file" => a href=(to("file", &path)) download { (entry.shown) },
                        kind => { (entry.shown) " " span.dim { "(" (kind) ")" } },
                    } }
                    td { @if let Some(bytes) = entry.bytes { (size(bytes)) } @else { "–" } }
                    td { (moment(entry.modified_unix)) }
                    td { a href=(to("restore", &path)) aria-label={ "restore … " (entry.shown) } { "restore …" } }
                } } }
            } } }
            @if listing.cut_short { p.dim { "There are more; these are the first." } }
        }
        p { a href=(to("restore", &place.path)) { "Restore all of this …" } }
    }
}

/// The path from all snapshots down to here.
fn crumbs(place: &SnapshotPath) -> Markup {
    let parts: Vec<&str> = place.path.split('/').filter(|part| !part.is_empty()).collect();
    let until = |count: usize| {
        let path = parts[..count].join("/");
        address(
            "browse",
            &[("folder", &place.folder), ("snapshot", &place.snapshot), ("path", &path)],
        )
    };
    html! {
        nav aria-label="Where this is" {
            a href="/snapshots" { "Snapshots" } " / "
            a href=(until(0)) { (place.snapshot) }
            @for (at, part) in parts.iter().enumerate() {
                " / " a href=(until(at + 1)) { (part) }
            }
        }
    }
}

fn compare(folder: &str, older: &str, newer: &str, found: &Changes) -> Markup {
    html! {
        p { a href="/snapshots" { "Snapshots" } " / from " code { (older) } " to " code { (newer) } }
        section.card {
            @if found.changes.is_empty() && !found.cut_short { p { "Nothing differs." } }
            @else { div.wide tabindex="0" role="region" aria-label="Changes" { table {
                thead { tr { th { "What" } th { "Where" } th { "Size" } } }
                tbody { @for change in &found.changes {
                    // A removed file is only in the older snapshot.
                    @let holder = if change.what == "removed" { older } else { newer };
                    @let query = [("folder", folder), ("snapshot", holder), ("path", change.path.as_str())];
                    tr {
                        td { (change.what) }
                        th scope="row" { @match change.kind {
                            "folder" => a href=(address("browse", &query)) { (change.shown) "/" },
                            "file" => a href=(address("file", &query)) download { (change.shown) },
                            _ => (change.shown),
                        } }
                        td { @if let Some(bytes) = change.bytes { (size(bytes)) } @else { "–" } }
                    }
                } }
            } } }
            @if found.cut_short { p.dim { "There are more: the comparison was stopped early." } }
            p.dim { "By size and time of each file; contents aren't read." }
        }
    }
}

/// Asks where to restore; then says what it will do, and asks for confirmation.
fn restore(snapshots: &dyn Snapshots, viewer: &Viewer, wish: &RestoreWish) -> Markup {
    let place = &wish.place;
    let plan = (!wish.to.is_empty()).then(|| snapshots.plan_restore(wish));
    html! {
        (crumbs(place))
        section.card {
            h2 { "Restore" }
            form.fields method="get" action="/snapshots/restore" {
                input type="hidden" name="folder" value=(place.folder);
                input type="hidden" name="snapshot" value=(place.snapshot);
                input type="hidden" name="path" value=(place.path);
                label { "To the path " input name="to" value=(wish.to) required maxlength="4096" placeholder="/srv/data/letter.txt"; }
                label { input type="checkbox" name="replace" value="1" checked[wish.replace]; " Move an existing file aside" }
                button.main[plan.is_none()] { "Preview" }
            }
            @match &plan {
                None => {}
                Some(Err(refusal)) => (refused(refusal)),
                Some(Ok(plan)) => {
                    h3 { "This will happen" }
                    ul {
                        li { code { (plan.to) } " becomes " (plan.way) " of what is in the snapshot." }
                        li { @match &plan.moved_aside {
                            Some(aside) => { "The existing file is moved to " code { (aside) } "." },
                            None => "Nothing exists there, so nothing is moved.",
                        } }
                    }
                    @if let Some(token) = &viewer.form_token {
                        form method="post" action=(wish_address(wish)) {
                            input type="hidden" name="form" value=(token.as_str());
                            button.main { "Restore it" } " " a href="/snapshots" { "Leave it" }
                        }
                    }
                }
            }
        }
    }
}

fn wish_address(wish: &RestoreWish) -> String {
    let place = &wish.place;
    let mut query = vec![
        ("folder", place.folder.as_str()),
        ("snapshot", &place.snapshot),
        ("path", &place.path),
        ("to", &wish.to),
    ];
    if wish.replace {
        query.push(("replace", "1"));
    }
    address("restore", &query)
}

fn address(view: &str, query: &[(&str, &str)]) -> String {
    let query = Serializer::new(String::new()).extend_pairs(query).finish();
    format!("/snapshots/{view}?{query}")
}
