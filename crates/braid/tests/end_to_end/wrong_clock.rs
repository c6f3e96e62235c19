use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A library that a program is given to see another time: namespaces have no
/// wall clock of their own.
pub fn wrong_clock(scratch: &Path) -> OsString {
    let (source, library) = (scratch.join("clock.c"), scratch.join("clock.so"));
    fs::write(&source, WRONG_CLOCK).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let built = compiler.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library.into_os_string()
}

const WRONG_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    const char *wrong = getenv("SECONDS_WRONG");
    if (result == 0 && clock == CLOCK_REALTIME && wrong)
        time->tv_sec += atol(wrong);
    const char *file = getenv("SECONDS_WRONG_FILE");
    if (result == 0 && clock == CLOCK_REALTIME && file) {
        char text[32] = "";
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            if (read(fd, text, sizeof text - 1) > 0)
                time->tv_sec += atol(text);
            close(fd);
        }
    }
    return result;
}
"#;
