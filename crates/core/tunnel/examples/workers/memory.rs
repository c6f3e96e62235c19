//! How fast this machine's memory is.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

/// More than any cache keeps, of each thread.
const BYTES: usize = 256 << 20;
const TIMES: usize = 4;

/// What so many threads move together, read and written, each copying memory of its own.
pub fn copied_gb_per_s(threads: usize) -> f64 {
    thread::scope(|scope| {
        let copying = || {
            let (from, mut to) = (vec![1_u8; BYTES], vec![0_u8; BYTES]);
            to.copy_from_slice(black_box(&from));
            let began = Instant::now();
            for _ in 0..TIMES {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            }
            (2 * BYTES * TIMES) as f64 / began.elapsed().as_secs_f64() / 1e9
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(copying)).collect();
        all.into_iter().map(|thread| thread.join().expect("a thread that ends")).sum()
    })
}
