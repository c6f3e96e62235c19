use super::Finding;
use crate::archive::{Entry, StoredNow, entries, with_bases};
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::files::open_own;
use crate::folder::snapshots_in;
use crate::manifest::{Aspect, Difference};
use crate::source::StreamOf;
use crate::subvolume::SendOrder;
use braid_pool::place::Place;
use braid_pool::uuid::Uuid;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The streams in `folder`; reads the files of those in `read`, or of all.
///
/// # Errors
/// One can't be read.
pub(crate) fn look(
    folder: &Path,
    read: Option<&[Uuid]>,
    hashed: &AtomicU64,
) -> Result<Vec<StoredNow>, Error> {
    let one = |entry: Entry| {
        let is_read = read.is_none_or(|read| read.contains(&entry.uuid()));
        let blake3_now = is_read.then(|| hash_of(&entry.file(folder), hashed)).transpose()?;
        Ok(StoredNow { entry, blake3_now })
    };
    entries(folder)?.into_iter().map(one).collect()
}

/// Compares streams stored at `place` with their manifests, checks that everything they build on is
/// there, and, given the folder of the originals, that the kernel still makes identical streams
/// from these.
///
/// # Errors
/// The originals can't be read.
pub(crate) fn compare(
    originals: Option<&Path>,
    place: &Place,
    stored: &[StoredNow],
    hashed: &AtomicU64,
) -> Result<Vec<Finding>, Error> {
    let entries: Vec<Entry> = stored.iter().map(|one| one.entry.clone()).collect();
    let here = match originals {
        Some(originals) => snapshots_in(originals)?,
        None => vec![],
    };
    let mut findings = vec![];
    for StoredNow { entry, blake3_now } in stored {
        let found = here.iter().find(|(_, about)| about.series_uuid() == entry.uuid());
        if originals.is_some() && found.is_none() {
            // Deleted by its own retention, which has different rules.
            continue;
        }
        let mut differs = blake3_now.as_ref() != Some(&entry.blake3);
        let base_lost = with_bases(&entries, entry.uuid()).is_err();
        if let (Some(originals), Some((name, _))) = (originals, found)
            && let Some(hash) = hash_anew(&originals.join(name), originals, entry, hashed)?
        {
            differs |= hash != entry.blake3;
        }
        let aspects = [(differs, Aspect::Content), (base_lost, Aspect::Missing)];
        let what: Vec<Aspect> =
            aspects.into_iter().filter(|(so, _)| *so).map(|(_, aspect)| aspect).collect();
        findings.push(finding(entry, originals.unwrap_or(place.path()), place, what));
    }
    for (name, about) in &here {
        if !entries.iter().any(|entry| entry.uuid() == about.series_uuid()) {
            let missing = Difference { path: name.clone().into(), what: vec![Aspect::Missing] };
            findings.push(Finding {
                original: ExactPath::from(originals.unwrap_or(place.path()).join(name)),
                copy: place.to_string(),
                files: 0,
                bytes: 0,
                nested: vec![],
                differences: vec![missing],
            });
        }
    }
    Ok(findings)
}

fn finding(entry: &Entry, original: &Path, place: &Place, what: Vec<Aspect>) -> Finding {
    let differences = match what.is_empty() {
        true => vec![],
        false => vec![Difference { path: entry.begin.name.clone(), what }],
    };
    Finding {
        original: original.join(entry.begin.name.as_path()).into(),
        copy: place.join(&entry.file(Path::new(""))).to_string(),
        files: 1,
        bytes: entry.bytes,
        nested: vec![],
        differences,
    }
}

fn hash_of(path: &Path, hashed: &AtomicU64) -> Result<String, Error> {
    let io = |error| Error::io("reading", path, error);
    let mut file = open_own(path, File::options().read(true)).map_err(io)?;
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

/// The hash of the stream as the kernel makes it now; `None` when its parent isn't here.
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
