use std::collections::VecDeque;

/// The largest value of the last `length` rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowedMax(VecDeque<(u64, f64)>);

impl WindowedMax {
    pub fn update(&mut self, round: u64, value: f64, length: u64) {
        while self.0.back().is_some_and(|(_, v)| *v <= value) {
            self.0.pop_back();
        }
        self.0.push_back((round, value));
        while self.0.front().is_some_and(|(r, _)| *r + length <= round) {
            self.0.pop_front();
        }
    }

    pub fn get(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, v)| *v)
    }
}
