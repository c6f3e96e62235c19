//! A page around its text: head, contents, breadcrumbs, versions, search.

use super::Options;
use super::html::{escaped, relative, relative_to_id};
use super::names::{Anchor, Names, places};
use super::plan::{DocumentPlan, Page, Part, VersionPlan};
use super::render::{Renderer, head_label, numbered};
use super::since::Since;
use crate::model::{Block, Section};
use std::fmt::Write;

/// Where a page is: what stands around it comes from here.
pub struct Room<'a> {
    pub options: &'a Options,
    pub versions: &'a [VersionPlan<'a>],
    pub version: &'a VersionPlan<'a>,
    pub document: &'a DocumentPlan<'a>,
    pub names: &'a Names<'a>,
}

/// The address of `path` when the site is at `base`.
pub fn absolute(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}

impl<'a> Room<'a> {
    /// The page of that number.
    pub fn html(&self, at: usize, since: &Since<'_>) -> String {
        let page = &self.document.pages[at];
        let text = self.text(page, since);
        let title = self.title(page);
        let body = format!(
            "<nav class=\"breadcrumbs\" aria-label=\"Breadcrumbs\" data-generated><ol>{}</ol></nav>\n\
             <article>\n{text}</article>\n{}",
            self.breadcrumbs(page),
            self.turning(at),
        );
        self.shell(&page.path, &title, page.parts.first().map(|part| part.section), &body)
    }

    /// All keywords by their names, with where they are.
    pub fn keywords_html(&self) -> String {
        let path = self.document.keywords_page();
        let mut keywords: Vec<Anchor<'_>> =
            places(self.number(), self.document).filter(|place| place.head.is_some()).collect();
        let label = |place: &Anchor<'_>| place.head.map_or_else(String::new, head_label);
        keywords.sort_by_cached_key(|place| (label(place).to_lowercase(), place.section));
        let mut list = String::from("<h1>Keywords</h1>\n<ul class=\"keywords\">\n");
        for place in &keywords {
            let section = &self.document.document.sections[place.section];
            let _ = writeln!(
                list,
                "<li><a href=\"{}\">{}</a> <small>{}</small></li>",
                escaped(&relative_to_id(&path, place.page, place.id)),
                escaped(&label(place)),
                escaped(section.number.as_deref().unwrap_or_default()),
            );
        }
        list.push_str("</ul>\n");
        let title = format!("Keywords — {}", self.document.document.title);
        self.shell(&path, &title, None, &format!("<article data-generated>{list}</article>"))
    }

    fn number(&self) -> usize {
        let same = |plan: &DocumentPlan<'_>| std::ptr::eq(plan, self.document);
        self.version.documents.iter().position(same).unwrap_or_default()
    }

    fn sections(&self) -> &'a [Section] {
        &self.document.document.sections
    }

    fn text(&self, page: &Page, since: &Since<'_>) -> String {
        let document = self.document.document;
        let mut renderer =
            Renderer::new(self.names, self.document, self.number(), &page.path, since);
        let mut has_title = false;
        if page.front {
            has_title = document.opening.iter().any(|block| matches!(block, Block::Title(_)));
            let opens =
                page.parts.first().is_some_and(|part| self.sections()[part.section].level == 1)
                    && document.format != crate::model::Format::Text
                    && document.opening.is_empty();
            if !has_title && !opens {
                let title = escaped(&document.title);
                let _ = writeln!(renderer.out, "<h1 data-generated>{title}</h1>");
                has_title = true;
            }
            renderer.blocks(&document.opening);
        }
        // The first heading of the page is its h1, unless the title above it is.
        let first = page.parts.iter().map(|part| self.sections()[part.section].level).min();
        let raise = first.unwrap_or(1) as isize - 1 - isize::from(has_title);
        let mut before = usize::from(has_title);
        for part in &page.parts {
            let section = &self.sections()[part.section];
            let wanted = (section.level as isize - raise).clamp(1, 6) as usize;
            // No level is left out, as where a Markdown file goes from # to ###.
            let level = wanted.min(before + 1);
            renderer.section = part.section;
            if part.heading {
                before = level;
                let id = escaped(&section.id);
                let _ = write!(renderer.out, "<h{level} id=\"{id}\">");
                if let Some(number) = &section.number {
                    let _ = write!(renderer.out, "<span class=\"number\">{number}.</span> ");
                }
                renderer.heading(&section.title);
                renderer.permalink(&section.id, &section.heading());
                let _ = writeln!(renderer.out, "</h{level}>");
                renderer.level = level + 1;
            } else {
                renderer.level = 1;
            }
            renderer.blocks(&section.blocks[part.blocks.clone()]);
            if part.heading && part.blocks.end < section.blocks.len() {
                self.split_keywords(section, &page.path, &mut renderer.out);
            }
        }
        if page.front && self.document.pages.len() > 1 {
            self.front_contents(&mut renderer.out);
        }
        renderer.out
    }

    /// Where keywords have pages of their own, their section lists them.
    fn split_keywords(&self, section: &Section, path: &str, out: &mut String) {
        out.push_str("<ul class=\"keywords\" data-generated>\n");
        for keyword in section.keywords() {
            let Some(head) = keyword.heads.first() else { continue };
            let found = self.names.places(&head.name).iter().find(|place| place.id == head.id);
            if let Some(place) = found {
                let to = escaped(&relative_to_id(path, place.page, place.id));
                let label = escaped(&head_label(head));
                let _ = writeln!(out, "<li><a href=\"{to}\">{label}</a></li>");
            }
        }
        out.push_str("</ul>\n");
    }

    /// The chapters, where the text has no table of contents itself.
    fn front_contents(&self, out: &mut String) {
        let has = |blocks: &[Block]| blocks.iter().any(|b| matches!(b, Block::Contents(_)));
        let own = has(&self.document.document.opening)
            || self.sections().iter().any(|section| has(&section.blocks));
        if !own {
            let path = &self.document.pages[0].path;
            out.push_str("<nav aria-label=\"Chapters\" data-generated>\n");
            self.contents(path, None, out);
            out.push_str("</nav>\n");
        }
    }

    fn title(&self, page: &Page) -> String {
        let document = self.document.document;
        let version = document.version.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
        let about = match page.parts.first() {
            _ if page.front => None,
            Some(part) if part.heading => {
                let section = &self.sections()[part.section];
                Some(numbered(section.number.as_deref(), &section.heading()))
            }
            Some(part) => self.first_keyword(part).map(str::to_owned),
            None => None,
        };
        let about = about.map(|about| format!("{about} — ")).unwrap_or_default();
        format!("{about}{}{version}", document.title)
    }

    fn first_keyword(&self, part: &Part) -> Option<&'a str> {
        let blocks = &self.sections()[part.section].blocks[part.blocks.clone()];
        blocks.iter().find_map(|block| match block {
            Block::Keyword(keyword) => Some(keyword.name()),
            _ => None,
        })
    }

    fn breadcrumbs(&self, page: &Page) -> String {
        let path = &page.path;
        let item = |to: &str, text: &str| {
            format!("<li><a href=\"{}\">{}</a></li>", escaped(to), escaped(text))
        };
        let mut crumbs = item(&relative(path, "index.html"), "Manuals");
        if let Some(version) = self.version.version {
            let _ = write!(crumbs, "<li>{}</li>", escaped(version));
        }
        let document = self.document.document;
        if page.front {
            let _ = write!(crumbs, "<li aria-current=\"page\">{}</li>", escaped(&document.title));
            return crumbs;
        }
        crumbs += &item(&relative(path, &self.document.pages[0].path), &document.title);
        let Some(part) = page.parts.first() else { return crumbs };
        for above in self.above(part.section) {
            let section = &self.sections()[above];
            let place = self.names.section_place(self.number(), &section.id);
            let text = numbered(section.number.as_deref(), &section.heading());
            if let Some(place) = place {
                crumbs += &item(&relative_to_id(path, place.page, place.id), &text);
            }
        }
        let section = &self.sections()[part.section];
        let text = numbered(section.number.as_deref(), &section.heading());
        if part.heading {
            let _ = write!(crumbs, "<li aria-current=\"page\">{}</li>", escaped(&text));
        } else {
            let place = self.names.section_place(self.number(), &section.id);
            if let Some(place) = place {
                crumbs += &item(&relative_to_id(path, place.page, place.id), &text);
            }
            let keyword = escaped(self.first_keyword(part).unwrap_or_default());
            let _ = write!(crumbs, "<li aria-current=\"page\">{keyword}</li>");
        }
        crumbs
    }

    /// The sections around a section, outermost first.
    fn above(&self, section: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut level = self.sections()[section].level;
        for at in (0..section).rev() {
            if self.sections()[at].level < level {
                level = self.sections()[at].level;
                found.push(at);
            }
        }
        found.reverse();
        found
    }

    /// Links to the pages before and after.
    fn turning(&self, at: usize) -> String {
        let pages = &self.document.pages;
        let path = &pages[at].path;
        let link = |to: Option<&Page>, class: &str, key: &str| {
            to.map_or_else(String::new, |to| {
                format!(
                    "<a class=\"{class}\" rel=\"{class}\" href=\"{}\">{key}{}</a>",
                    escaped(&relative(path, &to.path)),
                    escaped(&self.title_alone(to)),
                )
            })
        };
        let before = at.checked_sub(1).and_then(|before| pages.get(before));
        format!(
            "<nav class=\"turning\" aria-label=\"Pages before and after\" data-generated>{}{}</nav>\n",
            link(before, "prev", "Before: "),
            link(pages.get(at + 1), "next", "Next: ")
        )
    }

    fn title_alone(&self, page: &Page) -> String {
        let title = self.title(page);
        title.split(" — ").next().unwrap_or(&title).to_owned()
    }

    /// Ids that are the page's own begin with "page:", which no id of a document has.
    fn shell(&self, path: &str, title: &str, section: Option<usize>, body: &str) -> String {
        let mut html = head(self.options, path, title);
        let document = self.document.document;
        let mut side = String::new();
        self.contents(path, section, &mut side);
        let _ = write!(
            html,
            "<body data-root=\"{root}\" data-version=\"{folder}\" data-document=\"{name}\" \
             data-page=\"{page}\">\n\
             <a class=\"skip\" href=\"#page:text\">Skip to the text</a>\n\
             <header>\n<a class=\"home\" href=\"{home}\">{site}</a>\n\
             <form role=\"search\" hidden><label class=\"unseen\" for=\"page:search\">Search</label>\
             <input id=\"page:search\" class=\"search\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\" \
             placeholder=\"Search ( / )\" role=\"combobox\" aria-autocomplete=\"list\" \
             aria-expanded=\"false\" aria-controls=\"page:hits\">\
             <div id=\"page:hits\" class=\"hits\" role=\"listbox\" aria-label=\"Hits\" hidden></div>\
             <p class=\"found unseen\" role=\"status\"></p></form>\n\
             {versions}</header>\n\
             <div class=\"columns\">\n\
             <nav class=\"side\" aria-label=\"Contents\" data-generated>\n\
             <p><a href=\"{front}\">{name_of}</a></p>\n{documents}{side}\
             <p><a href=\"{keywords}\">All keywords</a></p></nav>\n\
             <main id=\"page:text\" tabindex=\"-1\">\n{body}</main>\n</div>\n</body>\n</html>\n",
            root = "../".repeat(path.matches('/').count()),
            folder = escaped(&self.version.folder),
            name = escaped(&document.name),
            page = escaped(path),
            home = escaped(&relative(path, "index.html")),
            site = escaped(&self.options.title),
            versions = self.version_links(path, section),
            front = escaped(&relative(path, &self.document.pages[0].path)),
            name_of = escaped(&document.title),
            documents = self.other_documents(path),
            keywords = escaped(&relative(path, &self.document.keywords_page())),
        );
        html
    }

    fn other_documents(&self, path: &str) -> String {
        let mut list = String::new();
        for plan in &self.version.documents {
            if !std::ptr::eq(plan, self.document) {
                let _ = writeln!(
                    list,
                    "<li><a href=\"{}\">{}</a></li>",
                    escaped(&relative(path, &plan.pages[0].path)),
                    escaped(&plan.document.title)
                );
            }
        }
        if list.is_empty() {
            return list;
        }
        format!(
            "<details class=\"documents\"><summary>Other manuals</summary><ul>\n{list}</ul></details>\n"
        )
    }

    /// The same section in other versions; the script leads to the same keyword.
    fn version_links(&self, path: &str, section: Option<usize>) -> String {
        let Some(own) = self.version.version else { return String::new() };
        let mut links = String::new();
        let title = section.map(|section| self.sections()[section].heading());
        for version in self.versions {
            let name = &self.document.document.name;
            let plan = version.documents.iter().find(|plan| &plan.document.name == name);
            let (Some(label), Some(plan)) = (version.version, plan) else { continue };
            let same = title.as_ref().and_then(|title| {
                let sections = &plan.document.sections;
                let at = sections.iter().position(|section| &section.heading() == title)?;
                let shows = |page: &&Page| page.parts.iter().any(|p| p.section == at && p.heading);
                Some((plan.pages.iter().find(shows)?, &sections[at].id))
            });
            let to = match same {
                Some((page, id)) => relative_to_id(path, &page.path, id),
                None => relative(path, &plan.pages[0].path),
            };
            let current = if label == own { " aria-current=\"true\"" } else { "" };
            let _ = write!(
                links,
                "<li><a href=\"{}\" data-to-version=\"{}\"{current}>{}</a></li>",
                escaped(&to),
                escaped(&version.folder),
                escaped(label)
            );
        }
        format!(
            "<details class=\"versions\" data-generated><summary>Version {}</summary>\
             <ul>{links}</ul></details>\n",
            escaped(own)
        )
    }

    /// The sections as a tree of lists, down to those that lie in the current chapter.
    fn contents(&self, path: &str, current: Option<usize>, out: &mut String) {
        let sections = self.sections();
        let number = self.number();
        let mut depth = 0;
        let top = sections.iter().map(|section| section.level).min().unwrap_or(1);
        for (at, section) in sections.iter().enumerate() {
            let Some(place) = self.names.section_place(number, &section.id) else { continue };
            let level = (section.level - top + 1).min(depth + 1);
            if level > depth {
                out.push_str("<ol>\n");
            } else {
                out.push_str("</li>\n");
                for _ in level..depth {
                    out.push_str("</ol></li>\n");
                }
            }
            depth = level;
            let mark = if current == Some(at) { " aria-current=\"true\"" } else { "" };
            let _ = write!(
                out,
                "<li><a href=\"{}\"{mark}>{}</a>",
                escaped(&relative_to_id(path, place.page, place.id)),
                escaped(&numbered(section.number.as_deref(), &section.heading()))
            );
        }
        if depth > 0 {
            out.push_str("</li>");
            for _ in 1..depth {
                out.push_str("</ol></li>");
            }
            out.push_str("</ol>\n");
        }
    }
}

/// What comes before the body of every page.
pub fn head(options: &Options, path: &str, title: &str) -> String {
    let canonical = options.base_url.as_ref().map_or_else(String::new, |base| {
        format!("<link rel=\"canonical\" href=\"{}\">\n", escaped(&absolute(base, path)))
    });
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n{canonical}\
         <link rel=\"stylesheet\" href=\"{}\">\n<script src=\"{}\" defer></script>\n</head>\n",
        escaped(title),
        escaped(&relative(path, "assets/manual.css")),
        escaped(&relative(path, "assets/manual.js")),
    )
}
