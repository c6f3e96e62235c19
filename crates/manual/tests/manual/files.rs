//! Files and folders: what is read, what is written, what is refused.

use crate::said::{page, site_of_files};
use braid_manual::check::{CheckError, Missing, check};
use braid_manual::input::{InputError, Reading, format_of, read};
use braid_manual::model::Format;
use braid_manual::site::{Options, Site, SiteError, WriteError, build};
use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::path::Path;

const TEXT: &str = "1. One\n------\n\nkey <value>\n  Does something.\n";

#[test]
fn the_format_is_told_by_looking() {
    let told = |path: &str, text: &str| format_of(Path::new(path), text);
    assert_eq!(told("a.md", TEXT), Format::Markdown);
    assert_eq!(told("a.txt.gz", TEXT), Format::Text);
    assert_eq!(told("a", TEXT), Format::Text);
    assert_eq!(told("README", "# Title\n\ntext\n"), Format::Markdown);
    assert_eq!(told("a.8", ".\\\" comment\n.TH A 8\n"), Format::Man);
    assert_eq!(told("a", "plain words\n"), Format::Text);
}

#[test]
fn a_packed_file_is_read_and_one_that_unpacks_to_too_much_refused() {
    let folder = tempfile::tempdir().unwrap();
    let packed = |name: &str, parts: &[&[u8]]| {
        let path = folder.path().join(name);
        let mut file = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
        parts.iter().for_each(|part| file.write_all(part).unwrap());
        file.finish().unwrap();
        path
    };
    let good = packed("good.txt.gz", &[TEXT.as_bytes()]);
    let site = site_of_files(&[&good]);
    assert!(page(&site, "manual/good.html").contains("Does something."));
    let zeros = vec![b' '; 1 << 20];
    let bomb = packed("bomb.txt.gz", &vec![zeros.as_slice(); 65]);
    assert!(matches!(read(&[bomb], &Reading::default()), Err(InputError::TooLarge(_))));
}

#[test]
fn a_folder_is_all_manuals_in_it_and_links_between_them_lead() {
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("all");
    fs::create_dir_all(root.join("guide")).unwrap();
    fs::write(root.join("guide/start.md"), "# Start\n\n[all](../all.md#two), [gone](no.md)\n")
        .unwrap();
    fs::write(root.join("all.md"), "# All\n\n## Two\n\n[start](guide/start.md)\n").unwrap();
    fs::write(root.join("picture.bin"), [0, 1, 2]).unwrap();
    let site = site_of_files(&[root]);
    let start = page(&site, "manual/all/guide/start.html");
    assert!(start.contains("<a href=\"../all.html#two\">all</a>, gone"), "{start}");
    assert!(page(&site, "manual/all/all.html").contains("<a href=\"guide/start.html\">start</a>"));
}

#[test]
fn two_manuals_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.txt", "a.md"].map(|name| folder.path().join(name));
    files.iter().for_each(|file| fs::write(file, TEXT).unwrap());
    let inputs = read(&files, &Reading::default()).unwrap();
    let options = Options { title: "t".into(), base_url: None };
    assert!(matches!(build(&inputs, &options, |_, _| {}), Err(SiteError::SameName { .. })));
}

#[test]
fn a_site_replaces_a_site_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.txt");
    fs::write(&file, TEXT).unwrap();
    let site = site_of_files(&[&file]);
    let out = folder.path().join("out");
    site.write(&out).unwrap();
    fs::write(out.join("left.html"), "from before").unwrap();
    site.write(&out).unwrap();
    assert!(out.join("manual/a.html").is_file() && !out.join("left.html").exists());
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "data").unwrap();
    assert!(matches!(Site::may_replace(&other), Err(WriteError::Taken(_))));
    assert!(matches!(site.write(&other), Err(WriteError::Taken(_))));
    assert_eq!(fs::read_to_string(other.join("precious")).unwrap(), "data");
    let beside: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 3, "nothing is left over: {beside:?}");
}

#[test]
fn dead_links_and_ids_that_are_there_twice_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, html: &str| fs::write(folder.path().join(name), html).unwrap();
    write(
        "a.html",
        "<p id=x id=y><p id='x'><a name=n></a><a href='#n'>1</a><a href=\"b.html?q=1#caf%C3%A9\">2</a>\
         <a href=b.html#no>3</a><a href=none.html>4</a><a href=none.html>4</a>\
         <a href='https://example.org/#x'>5</a><a href=mailto:a@b>6</a><!-- <a href=c.html> -->",
    );
    write("b.html", "<h1 id=\"café\">b</h1><img src=\"a.html\">");
    let report = check(folder.path(), |_, _| {}).unwrap();
    assert_eq!((report.pages, report.links, report.external), (2, 6, 2));
    let dead: Vec<_> = report.dead.iter().map(|d| (d.link.as_str(), d.times, d.missing)).collect();
    assert_eq!(dead, [("b.html#no", 1, Missing::Id), ("none.html", 2, Missing::File)]);
    let twice: Vec<_> = report.duplicates.iter().map(|d| (d.id.as_str(), d.times)).collect();
    assert_eq!(twice, [("x", 2)]);
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(check(empty.path(), |_, _| {}), Err(CheckError::NoPages(_))));
}
