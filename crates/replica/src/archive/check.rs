use super::{Entry, entries, with_bases};
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::manifest::{Aspect, Difference};
use crate::sink::snapshots_in;
use crate::source::StreamOf;
use crate::subvolume::SendOrder;
use crate::verify::Finding;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Compares the streams in `folder` with their manifests, looks whether all that they build on is
/// there, and, with the folder of the originals, whether the kernel still makes the very same
/// streams of these: that they say the same.
///
/// # Errors
/// One side can't be read.
pub(crate) fn verify(
    originals: Option<&Path>,
    folder: &Path,
    hashed: &AtomicU64,
) -> Result<Vec<Finding>, Error> {
    let stored = entries(folder)?;
    let here = match originals {
        Some(originals) => snapshots_in(originals)?,
        None => vec![],
    };
    let mut findings = vec![];
    for entry in &stored {
        let found = here.iter().find(|(_, about)| about.series_uuid() == entry.uuid());
        if originals.is_some() && found.is_none() {
            // Deleted by its retention, which has rules of its own.
            continue;
        }
        let file = entry.file(folder);
        let mut differs = hash_of(&file, hashed)? != entry.blake3;
        let base_lost = with_bases(&stored, entry.uuid()).is_err();
        if let (Some(originals), Some((name, _))) = (originals, found)
            && let Some(hash) = hash_anew(&originals.join(name), originals, entry, hashed)?
        {
            differs |= hash != entry.blake3;
        }
        let aspects = [(differs, Aspect::Content), (base_lost, Aspect::Missing)];
        let what: Vec<Aspect> =
            aspects.into_iter().filter(|(so, _)| *so).map(|(_, aspect)| aspect).collect();
        findings.push(finding(entry, originals.unwrap_or(folder), &file, what));
    }
    for (name, about) in &here {
        if !stored.iter().any(|entry| entry.uuid() == about.series_uuid()) {
            let missing = Difference { path: name.clone().into(), what: vec![Aspect::Missing] };
            findings.push(Finding {
                original: ExactPath::from(originals.unwrap_or(folder).join(name)),
                copy: folder.display().to_string(),
                files: 0,
                bytes: 0,
                nested: vec![],
                differences: vec![missing],
            });
        }
    }
    Ok(findings)
}

fn finding(entry: &Entry, original: &Path, file: &Path, what: Vec<Aspect>) -> Finding {
    let differences = match what.is_empty() {
        true => vec![],
        false => vec![Difference { path: entry.begin.name.clone(), what }],
    };
    Finding {
        original: original.join(entry.begin.name.as_path()).into(),
        copy: file.display().to_string(),
        files: 1,
        bytes: entry.bytes,
        nested: vec![],
        differences,
    }
}

fn hash_of(path: &Path, hashed: &AtomicU64) -> Result<String, Error> {
    let io = |error| Error::io("reading", path, error);
    let mut file = File::open(path).map_err(io)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut buffer).map_err(io)?;
        if read == 0 {
            return Ok(hasher.finalize().to_hex().to_string());
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        hashed.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// Of the stream as the kernel makes it now; nothing when what it is the difference to isn't here.
fn hash_anew(
    snapshot: &Path,
    originals: &Path,
    entry: &Entry,
    hashed: &AtomicU64,
) -> Result<Option<String>, Error> {
    let stream = entry.begin.stream;
    let parent = match stream.parent {
        None => None,
        Some(uuid) => {
            let here = snapshots_in(originals)?;
            match here.into_iter().find(|(_, about)| about.series_uuid() == uuid) {
                Some((_, about)) => Some(about.id),
                None => return Ok(None),
            }
        }
    };
    let order = SendOrder { parent, kind: stream.kind, without_data: false };
    let mut stream = StreamOf::subvolume(snapshot, &order)?;
    let mut hasher = blake3::Hasher::new();
    while let Some(block) = stream.next_block()? {
        hasher.update(&block);
        hashed.fetch_add(block.len() as u64, Ordering::Relaxed);
    }
    stream.check()?;
    Ok(Some(hasher.finalize().to_hex().to_string()))
}
