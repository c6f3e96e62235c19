//! The faults, as seen by a program that reads and writes.

use braid_faultdisk::{BLOCK, FaultyFile};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

#[test]
fn it_rots_refuses_writes_and_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let served = match FaultyFile::serve(folder.path(), 64 * BLOCK) {
        Ok(served) => served,
        Err(error) => return println!("skipped: needs root and FUSE: {error}"),
    };
    let file = File::options().read(true).write(true).open(served.path()).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 64 * BLOCK as u64);
    let block = [7; BLOCK];
    file.write_all_at(&block, 3 * BLOCK as u64).unwrap();
    let read = || {
        let mut bytes = [0; BLOCK];
        file.read_exact_at(&mut bytes, 3 * BLOCK as u64).map(|()| bytes)
    };
    assert_eq!(read().unwrap(), block);

    assert_eq!(served.rot(|bytes| bytes[0] == 7), 1);
    assert_ne!(read().unwrap(), block);
    file.write_all_at(&block, 3 * BLOCK as u64).unwrap();
    assert_eq!(read().unwrap(), block, "written again it is sound");

    served.fail_writes(1);
    let failed = file.write_all_at(&[8; BLOCK], 3 * BLOCK as u64).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(5), "{failed}");
    assert_eq!((read().unwrap(), served.writes_failed()), (block, 1));

    served.set_gone(true);
    assert_ne!(read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    served.set_gone(false);
    assert_eq!(read().unwrap(), block);
}
