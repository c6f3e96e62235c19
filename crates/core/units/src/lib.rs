//! Time, rate, size and ratio types shared by every crate, with the parsers
//! of their written forms (`30ms`, `6Mbit`, `200KB`, `0.5%`).

#![forbid(unsafe_code)]

mod duration;
mod quantity;
mod rate;
mod ratio;
mod size;
mod time;
mod wake_latency;

pub use duration::{format_duration, parse_duration};
pub use quantity::QuantityError;
pub use rate::Rate;
pub use ratio::Ratio;
pub use size::ByteSize;
pub use time::Time;
pub use wake_latency::{WakeLatency, WakeLatencyError};

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_read_in_bits_and_written_back() {
        for (text, bytes) in [
            ("6Mbit", 750_000),
            ("500kbit", 62_500),
            ("1Gbit/s", 125_000_000),
            ("1.5 Mbit", 187_500),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.bytes_per_sec(), bytes, "{text}");
            assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }

    #[test]
    fn quantities_without_a_unit_or_out_of_range_are_refused() {
        assert!(matches!("6".parse::<Rate>(), Err(QuantityError::MissingUnit { .. })));
        assert!(matches!("6Mfoo".parse::<Rate>(), Err(QuantityError::UnknownUnit { .. })));
        assert!("-6Mbit".parse::<Rate>().is_err());
        assert!("1e400Mbit".parse::<Rate>().is_err());
        assert!("101%".parse::<Ratio>().is_err());
        assert!(parse_duration("").is_err());
        assert!(parse_duration("9".repeat(400).as_str()).is_err());
    }

    #[test]
    fn sizes_and_durations_are_read() {
        assert_eq!("200KB".parse::<ByteSize>().unwrap().bytes(), 200_000);
        assert_eq!("64KiB".parse::<ByteSize>().unwrap().bytes(), 65_536);
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(format_duration(Duration::from_millis(30)), "30ms");
        assert_eq!("0.5%".parse::<Ratio>().unwrap().fraction(), 0.005);
    }

    #[test]
    fn rate_and_time_are_inverse() {
        let rate = Rate::from_mbit(6);
        assert_eq!(rate.time_for(1500), Duration::from_millis(2));
        assert_eq!(rate.bytes_in(Duration::from_millis(2)), 1500);
        assert_eq!(Rate::ZERO.bytes_in(Duration::from_secs(9)), 0);
        assert!(Rate::ZERO.time_for(1) > Duration::from_secs(1_000_000));
    }
}
