//! Text in HTML, and addresses.

/// Adds `text` so that it is read as it is, between tags and in attributes.
pub fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            c => into.push(c),
        }
    }
}

/// `text` escaped.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    escape(text, &mut html);
    html
}

/// The address of `to` as seen from the page `from`; both count from the site's folder.
pub fn relative(from: &str, to: &str) -> String {
    let here: Vec<&str> = from.split('/').collect();
    let there: Vec<&str> = to.split('/').collect();
    let most = here.len().min(there.len()) - 1;
    let shared = (0..most).take_while(|at| here[*at] == there[*at]).count();
    let mut address = "../".repeat(here.len() - 1 - shared);
    address.push_str(&there[shared..].join("/"));
    address
}

/// [`relative`] with an id; `#id` alone on the same page.
pub fn relative_to_id(from: &str, to: &str, id: &str) -> String {
    let page = if from == to { String::new() } else { relative(from, to) };
    match id {
        "" if page.is_empty() => "#".into(),
        "" => page,
        id => format!("{page}#{id}"),
    }
}
