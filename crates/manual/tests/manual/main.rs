//! Manuals become sites in which nothing is lost and nothing leads nowhere.

mod any_text;
mod browser;
mod debian;
mod files;
mod from_man;
mod from_markdown;
mod from_text;
mod haproxy;
mod said;
