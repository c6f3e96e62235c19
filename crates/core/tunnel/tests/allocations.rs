//! In the steady state the way through the core costs no allocation a packet:
//! big and small ones, both directions, acknowledgements included.

#![allow(unsafe_code)]

#[path = "../benches/star/mod.rs"]
mod star;

use star::{Load, Star, TURN};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Bytes that the concentrator of this thread holds.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    if bytes > 0 {
        COUNT.set(COUNT.get() + 1);
    }
    if star::AT_CONCENTRATOR.get() {
        HELD.set(HELD.get() + bytes);
    }
}

/// Counts what each thread asks for.
struct Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_steady_state_allocates_nothing_a_packet() {
    let both = Load { size: 92, packets: 8, up: true, down: true, busy: 1 };
    let down = Load { up: false, ..both };
    for (what, links, flows, load) in [
        ("small packets", 1, 1, down),
        ("small packets both ways", 1, 1, both),
        ("small packets by two links", 2, 1, both),
        ("many flows", 1, 200, both),
        ("whole packets", 1, 1, Load { size: 1500, ..both }),
        ("super-packets", 1, 1, Load { size: Load::SUPER, packets: 1, ..down }),
        (
            "super-packets by four links, both ways",
            4,
            1,
            Load { size: Load::SUPER, packets: 1, ..both },
        ),
    ] {
        let mut star = Star::new(1, links).with_flows(flows);
        star.run(load, TURN * 6_000);
        let before = COUNT.get();
        let delivered = star.run(load, TURN * 4_000);
        let allocations = COUNT.get() - before;
        println!("{what}: {allocations} allocations, {} packets", delivered.packets);
        assert!(delivered.packets > 3_000, "{what}: {delivered:?}");
        // A queue still grows now and then; that isn't by the packet.
        assert!(allocations < 40, "{what}: {allocations}, {delivered:?}");
    }
}

#[test]
fn an_idle_home_costs_little_memory() {
    let held = |homes: usize| {
        let before = HELD.get();
        let mut star = Star::new(homes, 2).with_flows(8);
        // Each has been busy; then all sleep.
        let load = Load { size: 1500, packets: homes, up: true, down: true, busy: homes };
        star.run(load, TURN * 2_000);
        let busy = HELD.get() - before;
        let idle = Load { packets: 0, up: false, down: false, ..load };
        // Buffers are given back half by half, whenever one wakes.
        star.run(idle, Duration::from_secs(400));
        (busy, HELD.get() - before)
    };
    let ((few_busy, few_idle), (many_busy, many_idle)) = (held(2), held(12));
    let (busy, idle) = ((many_busy - few_busy) / 10, (many_idle - few_idle) / 10);
    println!("a home of two links: busy {busy} bytes, idle {idle} bytes");
    assert!(idle > 0 && idle <= 64 << 10, "{idle}");
}
