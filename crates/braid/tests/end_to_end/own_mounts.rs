#![allow(unsafe_code)]

use std::panic::resume_unwind;
use std::process::Command;

/// Runs `test` on a thread that has mounts of its own, as have the programs that it starts; they
/// go with it.
pub fn in_own_mounts(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: no pointers; from here on this thread's mounts are its own.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
            mount("--make-rprivate /");
            test();
        });
        if let Err(panic) = thread.join() {
            resume_unwind(panic);
        }
    });
}

/// Runs mount(8) with these words.
pub fn mount(words: &str) {
    let status = Command::new("mount").args(words.split_whitespace()).status();
    assert!(status.unwrap().success(), "mount {words}");
}
