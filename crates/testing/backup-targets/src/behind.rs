use std::collections::BTreeMap;
use std::sync::Mutex;

/// Writes and removals, in order: a stale list may know only the beginning.
#[derive(Default)]
pub(crate) struct Writes(Mutex<Vec<Write>>);

struct Write {
    /// The bucket, and the object's name in it.
    key: String,
    /// `None` if it was removed.
    size: Option<usize>,
}

impl Writes {
    /// Records a request's effect; requests that aren't about one object don't affect lists.
    pub(crate) fn note(&self, method: &str, path: &str, length: usize) {
        let size = match method {
            "PUT" => Some(length),
            "DELETE" => None,
            _ => return,
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let is_object = path.trim_matches('/').contains('/');
        if is_object && !query.contains("retention") {
            let key = unescaped(path.trim_start_matches('/'));
            self.0.lock().unwrap().push(Write { key, size });
        }
    }

    /// A list of objects as it was before the last `count` changes: without objects added since,
    /// with those removed since.
    pub(crate) fn list_before(&self, count: usize, path: &str, list: &str) -> String {
        let (bucket, query) = path.split_once('?').unwrap_or((path, ""));
        let bucket = bucket.trim_matches('/');
        let asked = query.split('&').find_map(|one| one.strip_prefix("prefix="));
        let prefix = format!("{bucket}/{}", unescaped(asked.unwrap_or_default()));
        let all = self.0.lock().unwrap();
        let (known, unknown) = all.split_at(all.len().saturating_sub(count));
        let mut sizes: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        // Objects older than all of these changes are now removed or rewritten.
        sizes.extend(unknown.iter().map(|write| (write.key.as_str(), None)));
        sizes.extend(known.iter().map(|write| (write.key.as_str(), write.size)));
        let mut kept = String::new();
        let mut pieces = list.split("<Contents>");
        let head = pieces.next().unwrap_or_default();
        let mut tail = "";
        for piece in pieces {
            let (content, rest) = piece.split_once("</Contents>").unwrap_or((piece, ""));
            tail = rest;
            if !sizes.contains_key(format!("{bucket}/{}", key_in(content)).as_str()) {
                kept.push_str(&format!("<Contents>{content}</Contents>"));
            }
        }
        for (key, size) in sizes.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            if let Some(size) = size {
                let key = key.strip_prefix(&format!("{bucket}/")).unwrap_or(key);
                kept.push_str(&format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>"));
            }
        }
        match (head.split_once("</ListBucketResult>"), tail) {
            (Some((head, _)), "") => format!("{head}{kept}</ListBucketResult>"),
            _ => format!("{head}{kept}{tail}"),
        }
    }
}

fn key_in(content: &str) -> &str {
    let after = content.split_once("<Key>").map_or("", |(_, after)| after);
    after.split_once("</Key>").map_or("", |(key, _)| key)
}

/// `%2F` is a slash.
fn unescaped(text: &str) -> String {
    text.replace("%2F", "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_knows_nothing_of_the_last_writes() {
        let writes = Writes::default();
        writes.note("PUT", "/b/p/data/1", 10);
        writes.note("PUT", "/b/p/data/2", 20);
        writes.note("DELETE", "/b/p/data/1", 0);
        writes.note("PUT", "/b/p/index/3", 30);
        let now = "<ListBucketResult><Contents><Key>p/data/0</Key><Size>5</Size></Contents>\
                   <Contents><Key>p/data/2</Key><Size>20</Size></Contents></ListBucketResult>";
        let keys = |count| {
            let list = writes.list_before(count, "/b/?list-type=2&prefix=p%2Fdata&x=y", now);
            assert!(list.ends_with("</ListBucketResult>"), "{list}");
            list.split("<Contents>").skip(1).map(key_in).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(keys(0), ["p/data/0", "p/data/2"]);
        assert_eq!(keys(2), ["p/data/0", "p/data/1", "p/data/2"]);
        assert_eq!(keys(3), ["p/data/0", "p/data/1"]);
        assert_eq!(keys(4), ["p/data/0"]);
    }
}
