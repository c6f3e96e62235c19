//! Stands in for the crate `crossbeam-channel` (see `[patch.crates-io]`), which nothing here uses
//! but `rustic_core`. Where that asks for a channel without room, each thing would be handed over
//! by itself, with both threads awake for it: one or two context switches for each small file. Here
//! such a channel has room for what is sent within two milliseconds.

#![forbid(unsafe_code)]

mod receiver;
mod sender;
mod shared;

pub use receiver::{IntoIter, Iter, Receiver, RecvError};
pub use sender::{SendError, Sender};

use shared::{Room, Shared};

/// With room for so many; with none, for what is sent in a short time.
#[must_use]
pub fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    let room = if room == 0 { Room::ForAMoment } else { Room::For(room) };
    ends(room)
}

/// With room for all.
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ends(Room::For(usize::MAX))
}

fn ends<T>(room: Room) -> (Sender<T>, Receiver<T>) {
    let shared = Shared::new(room);
    (Sender::of(&shared), Receiver::of(&shared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{scope, sleep, spawn};
    use std::time::{Duration, Instant};

    #[test]
    fn all_that_is_sent_arrives_once_by_many_to_many() {
        for room in [0, 1, 7, usize::MAX] {
            let (sender, receiver) = bounded(room);
            let mut came: Vec<u32> = scope(|scope| {
                for part in 0..4 {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        (0..1000).for_each(|number| sender.send(part * 1000 + number).unwrap());
                    });
                }
                drop(sender);
                let readers: Vec<_> = (0..3)
                    .map(|_| receiver.clone())
                    .map(|receiver| scope.spawn(move || receiver.into_iter().collect::<Vec<_>>()))
                    .collect();
                drop(receiver);
                readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
            });
            came.sort_unstable();
            assert_eq!(came, (0..4000).collect::<Vec<u32>>(), "room for {room}");
        }
    }

    #[test]
    fn one_sender_s_come_in_their_order() {
        let (sender, receiver) = bounded(0);
        let sending = spawn(move || (0..5000).for_each(|number| sender.send(number).unwrap()));
        assert!((0..5000).eq(receiver.iter()));
        sending.join().unwrap();
    }

    #[test]
    fn what_is_sent_slowly_has_little_room() {
        let (sender, receiver) = bounded(0);
        let sending = spawn(move || {
            let mut sent = vec![];
            for number in 0..6 {
                sleep(Duration::from_millis(5));
                sender.send(number).unwrap();
                sent.push(Instant::now());
            }
            sent
        });
        sleep(Duration::from_millis(300));
        let began = Instant::now();
        assert!((0..6).eq(receiver));
        let sent = sending.join().unwrap();
        // One is there, and the next one waits.
        assert_eq!(sent.iter().filter(|at| **at < began).count(), 1);
    }

    #[test]
    fn the_other_end_s_going_is_noticed_by_who_waits() {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let waiting = spawn(move || sender.send(2));
        sleep(Duration::from_millis(20));
        drop(receiver);
        assert_eq!(waiting.join().unwrap(), Err(SendError(2)));
        let (sender, receiver) = unbounded::<u8>();
        let waiting = spawn(move || receiver.recv());
        sleep(Duration::from_millis(20));
        drop(sender);
        assert_eq!(waiting.join().unwrap(), Err(RecvError));
    }
}
