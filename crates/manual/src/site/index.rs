//! The site's first page: which manuals there are, of which versions.

use super::Options;
use super::html::escaped;
use super::page::head;
use super::plan::VersionPlan;
use std::fmt::Write;

pub fn html(versions: &[VersionPlan<'_>], options: &Options) -> String {
    let mut html = head(options, "index.html", &options.title);
    let _ = write!(
        html,
        "<body data-root=\"\" data-page=\"index.html\">\n<main class=\"index\">\n<h1>{}</h1>\n",
        escaped(&options.title)
    );
    for version in versions {
        if let Some(version) = version.version {
            let _ = writeln!(html, "<h2>Version {}</h2>", escaped(version));
        }
        html.push_str("<ul>\n");
        for plan in &version.documents {
            let _ = writeln!(
                html,
                "<li><a href=\"{}\">{}</a></li>",
                escaped(&plan.pages[0].path),
                escaped(&plan.document.title)
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}
