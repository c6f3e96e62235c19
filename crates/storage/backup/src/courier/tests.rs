use super::*;
use crate::secrets::Secrets;
use rustic_core::{BytesList, ReadBackend, WriteBackend};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fails as often as it is told to.
#[derive(Default)]
struct Moody {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    failures: Mutex<Vec<StoreError>>,
    breaks: AtomicBool,
}

impl Moody {
    fn mood(&self) -> Result<(), StoreError> {
        self.failures.lock().unwrap().pop().map_or(Ok(()), Err)
    }
}

impl Store for Moody {
    fn list(&self, _kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        self.mood()?;
        Ok(vec![])
    }
    fn read(&self, name: &Name, _part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        self.mood()?;
        let files = self.files.lock().unwrap();
        files.get(&name.path()).cloned().map(Bytes::from).ok_or(StoreError::Absent)
    }
    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
        assert!(!self.breaks.load(Ordering::Relaxed), "what this test is for");
        self.mood()?;
        self.files.lock().unwrap().insert(name.path(), content.concat());
        Ok(())
    }
    fn remove(&self, _name: &Name) -> Result<(), StoreError> {
        self.mood()
    }
    fn create(&self) -> Result<(), StoreError> {
        self.mood()
    }
}

fn courier(retries: u32, failures: Vec<StoreError>) -> (Courier, Arc<Moody>) {
    let store = Arc::new(Moody { failures: Mutex::new(failures), ..Moody::default() });
    let first_pause = Duration::from_millis(1);
    let target_options =
        TargetOptions { retries, first_pause, ..TargetOptions::new(Secrets::at(None)) };
    (Courier::with(Arc::clone(&store) as Arc<dyn Store>, "there".to_owned(), target_options), store)
}

fn passing(times: usize) -> Vec<StoreError> {
    vec![StoreError::Passing("it hiccups".to_owned()); times]
}

fn pack(text: &str) -> (Id, BytesList) {
    (Id::new(Sha256::digest(text).into()), text.as_bytes().to_vec().into())
}

#[test]
fn what_passes_is_tried_again_and_counted() {
    let (courier, store) = courier(3, passing(3));
    let (id, content) = pack("one");
    courier.write_bytes(FileType::Pack, &id, false, content).unwrap();
    courier.transfers.wait().unwrap();
    assert_eq!(store.files.lock().unwrap().len(), 1);
    assert_eq!(courier.delivery().retries, 3);
    assert_eq!(&courier.read_full(FileType::Pack, &id).unwrap()[..], b"one");
}

#[test]
fn a_name_without_an_address_is_mistyped_unless_it_was_right_before() {
    let nameless = || vec![StoreError::Nameless("no such host".to_owned())];
    let list = |courier: &Courier| courier.list_with_size(FileType::Index);
    let (new, _) = courier(3, nameless());
    assert!(list(&new).is_err());
    let failure = new.failure().unwrap().to_string();
    assert!(failure.contains("is its name right?"), "{failure}");
    // Now.
    let (reached, store) = courier(3, vec![]);
    list(&reached).unwrap();
    *store.failures.lock().unwrap() = nameless();
    list(&reached).unwrap();
    // Or earlier, as its record says.
    let store = Arc::new(Moody { failures: Mutex::new(nameless()), ..Moody::default() });
    let first_pause = Duration::from_millis(1);
    let target_options =
        TargetOptions { is_known: true, first_pause, ..TargetOptions::new(Secrets::at(None)) };
    let known = Courier::with(store, "there".to_owned(), target_options);
    list(&known).unwrap();
    assert_eq!(known.delivery().retries, 1);
}

#[test]
fn no_index_is_written_once_a_pack_was_not() {
    let (courier, store) = courier(1, passing(2));
    let (id, content) = pack("one");
    courier.write_bytes(FileType::Pack, &id, false, content).unwrap();
    let (id, content) = pack("the index");
    assert!(courier.write_bytes(FileType::Index, &id, false, content).is_err());
    assert!(store.files.lock().unwrap().is_empty());
    let failure = courier.failure().unwrap().to_string();
    assert!(failure.contains("it hiccups; tried 2 times"), "{failure}");
}

#[test]
fn nobody_waits_for_a_pack_whose_sender_broke_and_no_index_names_it() {
    let (courier, store) = courier(1, vec![]);
    store.breaks.store(true, Ordering::Relaxed);
    let (id, content) = pack("one");
    courier.write_bytes(FileType::Pack, &id, false, content).unwrap();
    assert!(courier.transfers.wait().is_err());
    store.breaks.store(false, Ordering::Relaxed);
    let (id, content) = pack("the index");
    assert!(courier.write_bytes(FileType::Index, &id, false, content).is_err());
    assert!(store.files.lock().unwrap().is_empty());
}

#[test]
fn what_is_damaged_there_is_an_error_for_it_alone() {
    let (courier, store) = courier(1, vec![]);
    let (id, content) = pack("one");
    courier.write_bytes(FileType::Index, &id, false, content).unwrap();
    let path = Name::new(FileType::Index, &id).path();
    store.files.lock().unwrap().insert(path, b"other".to_vec());
    assert!(courier.read_full(FileType::Index, &id).is_err());
    assert!(courier.failure().is_none());
    assert!(courier.look_again(0).is_err());
}

#[test]
fn snapshots_are_held_back_while_it_is_not_known_whether_they_are_whole() {
    let (courier, store) = courier(0, vec![]);
    courier.hold_snapshots(true);
    let (id, content) = pack("snapshot");
    courier.write_bytes(FileType::Snapshot, &id, false, content.clone()).unwrap();
    assert!(store.files.lock().unwrap().is_empty());
    courier.hold_snapshots(false);
    courier.write_bytes(FileType::Snapshot, &id, false, content).unwrap();
    assert_eq!(store.files.lock().unwrap().len(), 1);
}
