//! The courier as the library's backend: no file goes out before those that it refers to.

use super::Courier;
use crate::store::{Name, StoreError};
use bytes::Bytes;
use rustic_core::{
    BytesList, ErrorKind, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend,
};
use std::sync::atomic::Ordering;

impl ReadBackend for Courier {
    fn location(&self) -> String {
        self.transfers.place.clone()
    }

    fn list_with_size(&self, kind: FileType) -> RusticResult<Vec<(Id, u32)>> {
        let listed =
            (kind == FileType::Pack).then(|| self.transfers.lock().listed.clone()).flatten();
        match listed {
            Some(listed) => Ok(listed),
            None => self.transfers.list(kind).map_err(|error| told(&self.transfers.place, error)),
        }
    }

    fn read_full(&self, kind: FileType, id: &Id) -> RusticResult<Bytes> {
        let name = Name::new(kind, id);
        self.transfers.read(&name, None).map_err(|error| told(&self.transfers.about(&name), error))
    }

    fn read_partial(
        &self,
        kind: FileType,
        id: &Id,
        cacheable: bool,
        offset: u32,
        length: u32,
    ) -> RusticResult<Bytes> {
        let start = u64::from(offset);
        let part = start..start + u64::from(length);
        let name = Name::new(kind, id);
        let read = || self.transfers.read(&name, Some(&part));
        // Lists of folders, which are small, are what can be cached.
        let read = match !cacheable && self.holding_few.load(Ordering::Relaxed) > 0 {
            true => self.slots.read(read),
            false => read(),
        };
        read.map_err(|error| told(&self.transfers.about(&name), error))
    }

    fn warmup_path(&self, kind: FileType, id: &Id) -> String {
        Name::new(kind, id).path()
    }
}

impl WriteBackend for Courier {
    fn create(&self) -> RusticResult<()> {
        let create = self.transfers.persist("preparing", || self.transfers.store.create());
        create.map_err(|error| told(&self.transfers.place, error))
    }

    fn write_bytes(
        &self,
        kind: FileType,
        id: &Id,
        _cacheable: bool,
        content: BytesList,
    ) -> RusticResult<()> {
        let name = Name::new(kind, id);
        let content = content.into_vec();
        let sent = if kind == FileType::Pack {
            self.transfers.send(name, content)
        } else {
            let is_held =
                || kind == FileType::Snapshot && self.holds_snapshots.load(Ordering::Relaxed);
            let write = |()| if is_held() { Ok(()) } else { self.transfers.write(&name, &content) };
            self.transfers.wait().and_then(write)
        };
        sent.map_err(|error| told(&self.transfers.place, error))
    }

    fn remove(&self, kind: FileType, id: &Id, _cacheable: bool) -> RusticResult<()> {
        let name = Name::new(kind, id);
        let removed = self.transfers.wait().and_then(|()| {
            self.transfers.persist("removing", || self.transfers.store.remove(&name))
        });
        removed.map_err(|error| told(&self.transfers.place, error))
    }
}

fn told(place: &str, error: StoreError) -> Box<RusticError> {
    RusticError::with_source(ErrorKind::Backend, place.to_owned(), error)
}
