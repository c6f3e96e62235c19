//! Blocks become HTML. What the text doesn't say itself is marked `data-generated`.

use super::html::{escape, escaped, relative, relative_to_id};
use super::names::{Anchor, Names};
use super::plan::DocumentPlan;
use super::since::Since;
use crate::model::{
    Block, Contexts, Definition, Head, Image, Inline, Keyword, Label, Labelled, Link, List, Table,
};
use std::collections::BTreeSet;
use std::path::Path;

/// Writes the text of one page.
pub struct Renderer<'a> {
    pub names: &'a Names<'a>,
    pub plan: &'a DocumentPlan<'a>,
    pub document: usize,
    /// The page's address.
    pub page: &'a str,
    pub since: &'a Since<'a>,
    /// The section that is being written.
    pub section: usize,
    /// The level of the headings of keywords, 1 to 6.
    pub level: usize,
    pub out: String,
    /// In a heading or a link: nothing in it leads anywhere.
    plain: bool,
}

/// After so many characters a text no longer says where something named before is.
const FAR: usize = 48;

impl<'a> Renderer<'a> {
    pub fn new(
        names: &'a Names<'a>,
        plan: &'a DocumentPlan<'a>,
        document: usize,
        page: &'a str,
        since: &'a Since<'a>,
    ) -> Renderer<'a> {
        let out = String::new();
        Renderer { names, plan, document, page, since, section: 0, level: 2, out, plain: false }
    }

    pub fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Title(title) => self.element("h1", &escaped(title)),
            Block::Paragraph(inlines) => self.paragraph("p", inlines),
            Block::Verbatim(text) => self.verbatim(text),
            Block::Labelled(labelled) => self.labelled(labelled),
            Block::List(list) => self.list(list),
            Block::Definitions(definitions) => self.definitions(definitions),
            Block::Table(table) => self.table(table),
            Block::Contexts(contexts) => self.contexts(contexts),
            Block::Contents(entries) => {
                self.out.push_str("<ol class=\"contents\">\n");
                for entry in entries {
                    let number = entry.number.trim_end_matches('.');
                    let level = number.split('.').count();
                    let place = self.names.section_place(self.document, number);
                    self.out.push_str(&format!("<li class=\"level-{}\">", level.min(6)));
                    let text = format!("{} {}", escaped(&entry.number), escaped(&entry.title));
                    self.link_html(place, &text);
                    self.out.push_str("</li>\n");
                }
                self.out.push_str("</ol>\n");
            }
            Block::Indented(blocks) => {
                self.out.push_str("<div class=\"indented\">\n");
                self.blocks(blocks);
                self.out.push_str("</div>\n");
            }
            Block::Keyword(keyword) => self.keyword(keyword),
            Block::Image(image) => self.image(image),
        }
    }

    fn element(&mut self, name: &str, html: &str) {
        self.out.push_str(&format!("<{name}>{html}</{name}>\n"));
    }

    fn paragraph(&mut self, name: &str, inlines: &[Inline]) {
        self.out.push_str(&format!("<{name}>"));
        self.inlines(inlines);
        self.out.push_str(&format!("</{name}>\n"));
    }

    /// A keyboard can scroll it.
    fn verbatim(&mut self, text: &str) {
        // A parser drops the first line break.
        self.out.push_str("<pre tabindex=\"0\">\n");
        escape(text, &mut self.out);
        self.out.push_str("</pre>\n");
    }

    fn labelled(&mut self, labelled: &Labelled) {
        let class = match labelled.kind {
            Label::Arguments => "arguments",
            Label::Example => "example",
            Label::Note => "note",
            Label::Warning => "warning",
            Label::SeeAlso => "see-also",
            Label::Default => "default",
        };
        self.out.push_str(&format!("<div class=\"labelled {class}\">\n"));
        let label = format!("<b>{}</b>", escaped(&labelled.label));
        match labelled.blocks.split_first() {
            Some((Block::Paragraph(inlines), rest)) if labelled.kind != Label::Arguments => {
                self.out.push_str(&format!("<p>{label} "));
                self.inlines(inlines);
                self.out.push_str("</p>\n");
                self.blocks(rest);
            }
            _ => {
                self.element("p", &label);
                self.blocks(&labelled.blocks);
            }
        }
        self.out.push_str("</div>\n");
    }

    fn list(&mut self, list: &List) {
        let name = if list.ordered { "ol" } else { "ul" };
        self.out.push_str(&format!("<{name}>\n"));
        for item in &list.items {
            self.out.push_str("<li>");
            if list.ordered || !matches!(item.marker.as_str(), "-" | "*") {
                self.out.push_str("<span class=\"marker\">");
                escape(&item.marker, &mut self.out);
                self.out.push_str("</span> ");
            }
            self.tight(&item.blocks);
            self.out.push_str("</li>\n");
        }
        self.out.push_str(&format!("</{name}>\n"));
    }

    /// Without a paragraph around the first or only piece of running text.
    fn tight(&mut self, blocks: &[Block]) {
        match blocks.split_first() {
            Some((Block::Paragraph(inlines), rest)) => {
                self.inlines(inlines);
                self.out.push('\n');
                self.blocks(rest);
            }
            _ => self.blocks(blocks),
        }
    }

    fn definitions(&mut self, definitions: &[Definition]) {
        self.out.push_str("<dl>\n");
        for definition in definitions {
            self.out.push_str("<dt>");
            if let [Inline::Text(text)] = definition.term.as_slice() {
                self.syntax(text, "");
            } else {
                self.inlines(&definition.term);
            }
            self.out.push_str("</dt>\n<dd>");
            self.tight(&definition.blocks);
            self.out.push_str("</dd>\n");
        }
        self.out.push_str("</dl>\n");
    }

    fn table(&mut self, table: &Table) {
        // Scrolls by itself where it is too wide, also by keys.
        self.out.push_str("<div class=\"table\" tabindex=\"0\" role=\"group\" ");
        self.out.push_str("aria-label=\"table\"><table>\n");
        if !table.head.is_empty() {
            self.out.push_str("<thead><tr>");
            for cell in &table.head {
                match cell.is_empty() {
                    true => self.out.push_str("<td></td>"),
                    false => self.cell("th scope=\"col\"", "th", cell),
                }
            }
            self.out.push_str("</tr></thead>\n");
        }
        self.out.push_str("<tbody>\n");
        for row in &table.rows {
            if row.repeats_head {
                self.out.push_str("<tr class=\"head-again\">");
                for cell in &row.cells {
                    self.cell("td", "td", cell);
                }
                self.out.push_str("</tr>\n");
                continue;
            }
            self.out.push_str("<tr>");
            for (at, cell) in row.cells.iter().enumerate() {
                if at > 0 {
                    self.cell("td", "td", cell);
                    continue;
                }
                if cell.is_empty() {
                    self.out.push_str("<td></td>");
                    continue;
                }
                self.out.push_str("<th scope=\"row\">");
                let text = crate::words::inline_text(cell);
                match self.names.keyword(&text, self.document, self.section, None) {
                    Some(place) => self.link_html(Some(place), &escaped(&text)),
                    None => self.inlines(cell),
                }
                if let Some(mark) = &row.mark {
                    self.out.push_str(&format!(" <small>{}</small>", escaped(mark)));
                }
                self.out.push_str("</th>");
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</tbody></table></div>\n");
    }

    fn cell(&mut self, open: &str, name: &str, cell: &[Inline]) {
        let allowed = match cell {
            [Inline::Text(text)] => allowed_class(text),
            _ => "",
        };
        self.out.push_str(&format!("<{open}{allowed}>"));
        self.inlines(cell);
        self.out.push_str(&format!("</{name}>"));
    }

    fn contexts(&mut self, contexts: &Contexts) {
        self.out.push_str("<table class=\"contexts\"><caption>");
        escape(&contexts.label, &mut self.out);
        self.out.push_str("</caption>\n<thead><tr>");
        for section in &contexts.sections {
            self.out.push_str("<th scope=\"col\">");
            escape(section, &mut self.out);
            self.out.push_str("</th>");
        }
        self.out.push_str("</tr></thead>\n<tbody><tr>");
        for allowed in &contexts.allowed {
            self.out.push_str(&format!("<td{}>", allowed_class(allowed)));
            escape(allowed, &mut self.out);
            self.out.push_str("</td>");
        }
        self.out.push_str("</tr></tbody></table>\n");
    }

    fn keyword(&mut self, keyword: &Keyword) {
        let level = self.level.min(6);
        self.out.push_str(&format!("<section class=\"keyword\">\n<h{level}>"));
        for head in &keyword.heads {
            self.out.push_str(&format!("<span class=\"head\" id=\"{}\">", escaped(&head.id)));
            self.syntax(&head.syntax, &head.name);
            self.permalink(&head.id, &head.name);
            self.out.push_str("</span>\n");
        }
        self.out.push_str(&format!("</h{level}>\n"));
        self.about(keyword);
        self.blocks(&keyword.blocks);
        self.out.push_str("</section>\n");
    }

    /// The line as it is written: the keyword bold, what stands for something else marked.
    fn syntax(&mut self, syntax: &str, name: &str) {
        self.out.push_str("<code>");
        let mut rest = syntax;
        if !name.is_empty()
            && let Some(after) = rest.strip_prefix(name)
        {
            self.out.push_str(&format!("<b>{}</b>", escaped(name)));
            rest = after;
        }
        while let Some(start) = rest.find('<') {
            let Some(length) = rest[start..].find('>') else { break };
            escape(&rest[..start], &mut self.out);
            let argument = &rest[start..=start + length];
            self.out.push_str(&format!("<var>{}</var>", escaped(argument)));
            rest = &rest[start + length + 1..];
        }
        escape(rest, &mut self.out);
        self.out.push_str("</code>");
    }

    pub fn permalink(&mut self, id: &str, name: &str) {
        self.out.push_str(&format!(
            "<a class=\"permalink\" data-generated href=\"#{}\" aria-label=\"Link to {}\"></a>",
            escaped(id),
            escaped(name)
        ));
    }

    /// Since when it is there, and where else a keyword of this name is.
    fn about(&mut self, keyword: &Keyword) {
        let section = &self.plan.document.sections[self.section];
        let mut parts = Vec::new();
        if let Some((since, before)) = self.since.when(self.plan.document, section, keyword.name())
        {
            parts.push(format!(
                "<span class=\"since\" title=\"not in {}\">since {}</span>",
                escaped(before),
                escaped(since)
            ));
        }
        let mut seen = BTreeSet::from([(self.document, self.section)]);
        let mut others = Vec::new();
        for place in self.names.places(keyword.name()) {
            if place.document == self.document && seen.insert((place.document, place.section)) {
                let other = &self.plan.document.sections[place.section];
                let to = relative_to_id(self.page, place.page, place.id);
                others.push(format!(
                    "<a href=\"{}\">{}</a>",
                    escaped(&to),
                    escaped(&numbered(other.number.as_deref(), &other.heading()))
                ));
            }
        }
        if !others.is_empty() {
            parts.push(format!("also in: {}", others.join(", ")));
        }
        if !parts.is_empty() {
            let html = parts.join(" · ");
            self.out.push_str(&format!("<p class=\"about\" data-generated>{html}</p>\n"));
        }
    }

    fn image(&mut self, image: &Image) {
        let folder = self.plan.file.parent().unwrap_or(Path::new("."));
        let alt = escaped(&image.alt);
        match self.plan.pictures.get(&folder.join(&image.source)) {
            Some(address) => {
                let source = escaped(&relative(self.page, address));
                let html = format!("<img src=\"{source}\" alt=\"{alt}\" loading=\"lazy\">");
                self.element("p", &html);
            }
            None => self.element("p", &alt),
        }
    }

    pub fn inlines(&mut self, inlines: &[Inline]) {
        for (at, inline) in inlines.iter().enumerate() {
            match inline {
                Inline::Text(text) => escape(text, &mut self.out),
                Inline::Quoted(text) => self.quoted(text, &inlines[at + 1..]),
                Inline::Section(number) => {
                    let document = self.said_document(&inlines[at + 1..]).unwrap_or(self.document);
                    let place = self.names.section_place(document, number);
                    self.link_html(place, &escaped(number));
                }
                Inline::Code(text) => {
                    self.out.push_str("<code>");
                    escape(text, &mut self.out);
                    self.out.push_str("</code>");
                }
                Inline::Emphasis(inner) => self.wrapped("em", inner),
                Inline::Strong(inner) => self.wrapped("strong", inner),
                Inline::Link(link) => self.link(link),
                Inline::Break => self.out.push_str("<br>\n"),
            }
        }
    }

    fn wrapped(&mut self, name: &str, inner: &[Inline]) {
        self.out.push_str(&format!("<{name}>"));
        self.inlines(inner);
        self.out.push_str(&format!("</{name}>"));
    }

    fn quoted(&mut self, text: &str, after: &[Inline]) {
        let number = said_section(after);
        let document = self.said_document(after).unwrap_or(self.document);
        let place = self
            .names
            .heading(text, document)
            .or_else(|| self.names.keyword(text, document, self.section, number));
        self.out.push_str("&quot;");
        // A text that names itself leads nowhere new.
        self.link_html(place, &escaped(text));
        self.out.push_str("&quot;");
    }

    /// The document that is named right after: "of the management guide".
    fn said_document(&self, after: &[Inline]) -> Option<usize> {
        let Inline::Text(text) = after.iter().find(|inline| matches!(inline, Inline::Text(_)))?
        else {
            return None;
        };
        let near: String = text.chars().take(FAR).collect();
        let near = near.split(['.', ';', '"']).next().unwrap_or_default();
        self.names.document_called(near).filter(|document| *document != self.document)
    }

    /// `html` as a link, if there is a place.
    fn link_html(&mut self, place: Option<Anchor<'_>>, html: &str) {
        let Some(place) = place.filter(|_| !self.plain) else {
            self.out.push_str(html);
            return;
        };
        let to = escaped(&relative_to_id(self.page, place.page, place.id));
        self.out.push_str(&format!("<a href=\"{to}\">{html}</a>"));
    }

    /// Words that lead to an address, or to a file that is in the site too; to others they don't
    /// lead.
    fn link(&mut self, link: &Link) {
        let to = self.target(&link.to).filter(|_| !self.plain);
        let Some(to) = to else {
            self.inlines(&link.text);
            return;
        };
        self.out.push_str(&format!("<a href=\"{}\">", escaped(&to)));
        let before = std::mem::replace(&mut self.plain, true);
        self.inlines(&link.text);
        self.plain = before;
        self.out.push_str("</a>");
    }

    fn target(&self, to: &str) -> Option<String> {
        let outside = ["https://", "http://", "mailto:"];
        if outside.iter().any(|scheme| to.starts_with(scheme)) {
            return Some(to.to_owned());
        }
        let (file, id) = to.split_once('#').unwrap_or((to, ""));
        let document = if file.is_empty() {
            self.document
        } else {
            let folder = self.plan.file.parent().unwrap_or(Path::new("."));
            self.names.file(&folder.join(file))?
        };
        if id.is_empty() {
            return Some(relative(self.page, self.names.front(document)));
        }
        let place = self.names.section_place(document, id)?;
        Some(relative_to_id(self.page, place.page, place.id))
    }

    /// A heading's text, in which nothing leads anywhere.
    pub fn heading(&mut self, inlines: &[Inline]) {
        let before = std::mem::replace(&mut self.plain, true);
        self.inlines(inlines);
        self.plain = before;
    }
}

/// "section 5.1" right after a keyword says where that is.
fn said_section(after: &[Inline]) -> Option<&str> {
    match after {
        [Inline::Text(between), Inline::Section(number), ..] => {
            let near = between.chars().count() <= FAR && !between.contains(['.', ',', ';']);
            near.then_some(number)
        }
        _ => None,
    }
}

/// For the colours of "yes" and "no".
fn allowed_class(text: &str) -> &'static str {
    match text.trim() {
        "X" | "yes" => " class=\"yes\"",
        "-" | "no" => " class=\"no\"",
        text if text.starts_with("yes") || text.starts_with("X ") || text.starts_with("X(") => {
            " class=\"partly\""
        }
        _ => "",
    }
}

/// "4.2. Title".
pub fn numbered(number: Option<&str>, title: &str) -> String {
    number.map_or_else(|| title.to_owned(), |number| format!("{number}. {title}"))
}

/// "option httpchk" of a head that may take it back.
pub fn head_label(head: &Head) -> String {
    if head.negated { format!("no {}", head.name) } else { head.name.clone() }
}
