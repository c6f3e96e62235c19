//! Congestion control of one path.
//!
//! | file | what |
//! |---|---|
//! | `controller` | the interface that the rest of the core sees |
//! | `signals` | acknowledgements → queueing delay, jitter, rounds; joins those that follow |
//! | `round` | what a round trip's acknowledgements tell together; whether a buffer overflows |
//! | `forward_jitter`, `reverse_jitter` | jitter on the way there, told from a queue, and back |
//! | `innovation` | how much a link's capacity changes |
//! | `usual_loss` | what a path loses whatever is sent |
//! | `deliveries` | what arrived when |
//! | `estimator` | signals and deliveries → the bottleneck's rate |
//! | `phase` | the state machine: how fast to send, when to probe and to drain |
//! | `model` | joins signals, estimator and phase; what happens between rounds |
//!
//! # Beside BBRv3 (draft-ietf-ccwg-bbr)
//!
//! As BBR it paces by an estimate of the bottleneck's rate, and bounds what is
//! in flight by the estimate's product with the base delay. What differs
//! follows from one thing: the peer reports receive times, so one-way delay,
//! and with it our own queue, is measured rather than inferred.
//!
//! | BBRv3 | here |
//! |---|---|
//! | rate: windowed maximum of delivery rates | rises while there is no queue; measured anew whenever there is one, as packets then arrive at the bottleneck's rate. Jitter that compresses packets can't inflate it |
//! | Startup until the rate is flat for three rounds, or six runs of packets and 2 % are lost in one | the same, or until a queue of ours stands; or four runs and 10 % more than the path always loses, unless the rate still grows by a quarter; or 25 % |
//! | Drain at half of the rate | at 0.8 to 0.92 of it, by the queue that is left: that is seen late, and the bottleneck is not to idle |
//! | ProbeBW: Down, Cruise, Refill, Up, on a timer | Cruise; Probe after three quiet rounds, in growing steps while each finds more; Drain whenever a queue stands |
//! | Cruise at the rate | at 1.04 of it: a capacity that has risen shows |
//! | ProbeRTT each 5 s | none: a drain shows the base delay. One that changes nothing shows a new base delay |
//! | loss bounds (`inflight_hi`) from 2 % | a round that loses 10 % more than the path always does, in four runs, or 25 % counts as a buffer too short to show a queue, and is drained as one; links here lose much by themselves |
//! | | Track: links whose rate changes within a few round trips are kept filled with a short queue, and what arrives is the estimate |
//!
//! The standing queue at which the sender yields is the *queue target* (as
//! LEDBAT's, RFC 6817; cf. Copa, NSDI 2018).

mod controller;
mod deliveries;
mod estimator;
mod forward_jitter;
mod innovation;
mod model;
mod phase;
mod reverse_jitter;
mod round;
mod signals;
mod usual_loss;

pub use controller::{AckSample, Controller};
pub use forward_jitter::{Arrived, ForwardJitter};
pub use model::DelayModel;
