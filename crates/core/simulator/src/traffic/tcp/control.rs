//! A sender's congestion control, whichever it is.

use super::ack_info::AckInfo;
use super::bbr::{Bbr, Bbr3};
use super::window::{Congestion, Window};

#[derive(Clone, Debug)]
pub(super) enum Control {
    Window(Window),
    Bbr(Box<Bbr>),
    Bbr3(Box<Bbr3>),
}

impl Control {
    pub fn new(kind: Congestion) -> Self {
        match kind {
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new())),
            Congestion::Bbr3 => Self::Bbr3(Box::new(Bbr3::new())),
            Congestion::Cubic | Congestion::Reno | Congestion::Quic => {
                Self::Window(Window::new(kind))
            }
        }
    }

    /// Segments that may be in flight.
    pub fn segments(&self) -> usize {
        match self {
            Self::Window(window) => window.segments(),
            Self::Bbr(bbr) => bbr.window().segments as usize,
            Self::Bbr3(bbr) => bbr.window().segments as usize,
        }
    }

    /// Segments a second; `None` if it isn't paced.
    pub fn pacing_rate(&self) -> Option<f64> {
        match self {
            Self::Window(_) => None,
            Self::Bbr(bbr) => Some(bbr.window().pacing),
            Self::Bbr3(bbr) => Some(bbr.window().pacing),
        }
    }

    /// It keeps the window below what the path carries, to see the least round trip.
    pub fn probes_round_trip(&self) -> bool {
        matches!(self, Self::Bbr(bbr) if bbr.probes_round_trip())
    }

    pub fn on_ack(&mut self, ack: &AckInfo) {
        match self {
            Self::Window(window) => window.on_ack(ack),
            Self::Bbr(bbr) => bbr.on_ack(ack),
            Self::Bbr3(bbr) => bbr.on_ack(ack),
        }
    }

    /// So many segments were sent.
    pub fn on_sent(&mut self, count: usize) {
        if let Self::Window(window) = self {
            window.on_sent(count);
        }
    }

    /// The first loss of a window.
    pub fn on_recovery(&mut self, in_flight: usize) {
        match self {
            Self::Window(window) => window.on_recovery(in_flight),
            Self::Bbr(bbr) => bbr.on_recovery(in_flight),
            Self::Bbr3(bbr) => bbr.on_recovery(in_flight),
        }
    }

    /// All of that window has been made good.
    pub fn on_recovered(&mut self) {
        match self {
            Self::Window(window) => window.on_recovered(),
            Self::Bbr(bbr) => bbr.on_recovered(),
            Self::Bbr3(bbr) => bbr.on_recovered(),
        }
    }

    pub fn on_timeout(&mut self, in_flight: usize) {
        match self {
            Self::Window(window) => window.on_timeout(in_flight),
            Self::Bbr(bbr) => bbr.on_timeout(),
            Self::Bbr3(bbr) => bbr.on_timeout(),
        }
    }
}
