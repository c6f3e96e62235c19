//! What a manual says, whatever it was written in: sections, keywords, tables,
//! examples. It is exported as JSON beside the pages.

use serde::{Deserialize, Serialize};

/// One manual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// What it is called in addresses: `configuration`, `guide/home`.
    pub name: String,
    /// What it calls itself.
    pub title: String,
    /// Of the program it describes, as in "2.6".
    pub version: Option<String>,
    /// What it was written in.
    pub format: Format,
    /// What comes before the first section.
    pub opening: Vec<Block>,
    /// All sections in order; their levels say which lies in which.
    pub sections: Vec<Section>,
}

/// What a manual is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Plain text with numbered, underlined headings.
    Text,
    /// CommonMark with GitHub's tables.
    Markdown,
    /// A man page: roff with man(7) or mdoc(7).
    Man,
}

/// A section without those inside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// As in "4.2".
    pub number: Option<String>,
    /// Unique in the document, and what addresses point at.
    pub id: String,
    /// The heading.
    pub title: Vec<Inline>,
    /// 1 for a chapter.
    pub level: usize,
    /// What it says.
    pub blocks: Vec<Block>,
}

/// A piece of text that stands for itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// The manual's title, as its own text has it.
    Title(String),
    /// Running text.
    Paragraph(Vec<Inline>),
    /// Text whose spaces and line breaks count, such as configuration.
    Verbatim(String),
    /// "Arguments :", "Example :", "See also :" and what belongs to it.
    Labelled(Labelled),
    /// Items with or without numbers.
    List(List),
    /// Terms, each with what it means.
    Definitions(Vec<Definition>),
    /// Rows and columns.
    Table(Table),
    /// "May be used in sections": in which of them a keyword is known.
    Contexts(Contexts),
    /// A table of contents that the source itself has.
    Contents(Vec<ContentsEntry>),
    /// What is set in deeper than the text around it.
    Indented(Vec<Block>),
    /// A keyword's definition.
    Keyword(Keyword),
    /// A picture.
    Image(Image),
}

/// A piece of running text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inline {
    /// Words as they are.
    Text(String),
    /// What stands between double quotes, without them; often a keyword.
    Quoted(String),
    /// The number in "section 4.2".
    Section(String),
    /// Words of a program.
    Code(String),
    /// Stressed.
    Emphasis(Vec<Inline>),
    /// Strongly stressed.
    Strong(Vec<Inline>),
    /// Leads to an address, or to another file of the manual.
    Link(Link),
    /// A new line.
    Break,
}

/// Words that lead somewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// As the source has it: a URL, a file relative to it, `#id`.
    pub to: String,
    /// The words.
    pub text: Vec<Inline>,
}

/// See [`Block::Labelled`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labelled {
    /// What kind of label it is.
    pub kind: Label,
    /// As the source has it, with its colon.
    pub label: String,
    /// What belongs to it.
    pub blocks: Vec<Block>,
}

/// Kinds of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// What the words of a keyword's line mean.
    Arguments,
    /// Configuration to copy.
    Example,
    /// Something to know.
    Note,
    /// Something to beware of.
    Warning,
    /// What else to read.
    SeeAlso,
    /// What holds when nothing is said.
    Default,
}

/// See [`Block::List`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// Whether the markers count.
    pub ordered: bool,
    /// In order.
    pub items: Vec<Item>,
}

/// One item of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// `-`, `*`, `1.`, `a)`.
    pub marker: String,
    /// What it says.
    pub blocks: Vec<Block>,
}

/// See [`Block::Definitions`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// What is defined.
    pub term: Vec<Inline>,
    /// What it means.
    pub blocks: Vec<Block>,
}

/// See [`Block::Table`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The first row of the table.
    pub head: Vec<Vec<Inline>>,
    /// The others.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The head once more, for readers who scrolled far.
    pub repeats_head: bool,
    /// As many as the head has, or fewer.
    pub cells: Vec<Vec<Inline>>,
    /// Beside the first cell, as in "(deprecated)".
    pub mark: Option<String>,
}

/// See [`Block::Contexts`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contexts {
    /// As the source has it, with its colon.
    pub label: String,
    /// The kinds of configuration sections, or of rule sets.
    pub sections: Vec<String>,
    /// For each "yes", "no", "yes(!)", "X", "-".
    pub allowed: Vec<String>,
}

/// An entry of a table of contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentsEntry {
    /// As in "4.2", and as the source has it: often with a full stop.
    pub number: String,
    /// The heading.
    pub title: String,
}

/// See [`Block::Keyword`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Keyword {
    /// The lines that are defined together, at least one.
    pub heads: Vec<Head>,
    /// What they mean.
    pub blocks: Vec<Block>,
}

/// One line that can be written, and its keyword.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Unique in the document, and what addresses point at.
    pub id: String,
    /// The words that are always the same: `option httpchk`, `req.hdr`.
    pub name: String,
    /// The line as the source has it, continued over several perhaps.
    pub syntax: String,
    /// What stands for something else, without its brackets: `address`.
    pub arguments: Vec<String>,
    /// The line takes back what the keyword does: "no option httpchk".
    pub negated: bool,
    /// What a sample fetch or converter gives, as in "integer".
    pub output: Option<String>,
}

/// See [`Block::Image`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// As the source has it.
    pub source: String,
    /// What it shows.
    pub alt: String,
}

impl Section {
    /// The keywords that it defines.
    pub fn keywords(&self) -> impl Iterator<Item = &Keyword> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Keyword(keyword) => Some(keyword),
            _ => None,
        })
    }
}

impl Keyword {
    /// The name of its first line.
    #[must_use]
    pub fn name(&self) -> &str {
        self.heads.first().map_or("", |head| &head.name)
    }
}

impl Document {
    /// How many lines of keywords it defines.
    #[must_use]
    pub fn heads(&self) -> usize {
        let keywords = self.sections.iter().flat_map(Section::keywords);
        keywords.map(|keyword| keyword.heads.len()).sum()
    }
}
