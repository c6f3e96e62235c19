use std::time::Duration;

/// The estimated remaining time, rounded as coarsely as it is known.
pub fn time_left(left: Duration) -> String {
    let seconds = left.as_secs_f64();
    match seconds {
        _ if seconds < 119.5 => format!("{seconds:.0} s left"),
        _ if seconds < 119.5 * 60.0 => format!("{:.0} min left", seconds / 60.0),
        _ => format!("{:.1} h left", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_in_the_unit_that_suits_it() {
        for (seconds, said) in [
            (0.0, "0 s left"),
            (119.4, "119 s left"),
            (119.6, "2 min left"),
            (5400.0, "90 min left"),
            (9000.0, "2.5 h left"),
        ] {
            assert_eq!(time_left(Duration::from_secs_f64(seconds)), said);
        }
    }
}
