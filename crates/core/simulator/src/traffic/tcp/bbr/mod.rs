//! BBR and BBRv3, in segments. What they have in common stands apart: the window with
//! its pacing, how they see that the path is full, and how much more comes acknowledged
//! at once than the path's rate.

mod extra_acked;
mod full_pipe;
mod v1;
mod v3;
mod window;

pub(super) use v1::Bbr;
pub(super) use v3::Bbr3;
