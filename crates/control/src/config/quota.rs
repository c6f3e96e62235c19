use super::section::Section;
use braid_units::ByteSize;

/// Bytes that a link may carry in a period, both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The allowance.
    pub bytes: ByteSize,
    /// When the counter restarts.
    pub period: QuotaPeriod,
}

/// When a quota's counter restarts, at 00:00 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaPeriod {
    /// Every day.
    Day,
    /// On this day of every month, 1 to 31; on the last day of shorter months.
    Month {
        /// Day of the month.
        reset_day: u8,
    },
}

pub(super) fn read(mut section: Section<'_, '_>) -> Option<Quota> {
    let bytes = section.parsed::<ByteSize>("bytes");
    match bytes {
        None => section.missing("bytes", "write bytes = \"20GB\""),
        Some(bytes) if bytes.bytes() == 0 => section.wrong(
            "bytes",
            "link.quota.bytes of 0 means that the link is never used",
            "remove the link, or write standby = true",
        ),
        Some(_) => {}
    }
    let reset_day = section.integer::<u8>("reset_day", 1..=31);
    let period = section.parsed_by("per", |text| match text {
        "day" => Ok(QuotaPeriod::Day),
        "month" => Ok(QuotaPeriod::Month { reset_day: reset_day.unwrap_or(1) }),
        other => Err(format!("{other:?} is none of day, month")),
    });
    match period {
        None => section.missing("per", "write per = \"month\" or per = \"day\""),
        Some(QuotaPeriod::Day) if reset_day.is_some() => section.wrong(
            "reset_day",
            "link.quota.reset_day has no meaning with per = \"day\"",
            "remove it, or write per = \"month\"",
        ),
        Some(_) => {}
    }
    section.finish();
    Some(Quota { bytes: bytes?, period: period? })
}
