//! A disk's own report of its health, from `smartctl -j` (smartctl(8); smartmontools' JSON form
//! 1.0).

use crate::tool::{self, ToolError};
use braid_pool::disk::Health;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// What the disk reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Smart {
    /// Its health.
    pub health: Health,
    /// Degrees Celsius.
    pub temperature_c: Option<i16>,
    /// SCT error recovery control; `None` when it wasn't reported.
    pub error_recovery: Option<ErrorRecovery>,
}

/// How long a disk tries to read a bad sector (SCT ERC, "TLER").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRecovery {
    /// Its limit; `None`: as long as it likes.
    pub limit: Option<Duration>,
    /// Whether it can be limited.
    pub can_limit: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum SmartError {
    /// smartctl could not be run.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// It sleeps, and we don't wake it.
    #[error("{0} is in standby")]
    Asleep(String),
    /// Bits 0 or 1 of the exit status: the disk could not be opened or asked.
    #[error("smartctl can't ask {0}: {1}")]
    Refused(String, String),
    /// smartctl's answer isn't JSON in a known form.
    #[error("smartctl answered about {0} in an unknown form: {1}")]
    Form(String, serde_json::Error),
}

const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Asks a disk, without waking it.
///
/// # Errors
/// [`SmartError::Tool`] when smartctl can't be run or doesn't answer in time, and those of
/// [`parse`].
pub fn ask(path: &str) -> Result<Smart, SmartError> {
    let arguments =
        ["-j", "-n", "standby", "-i", "-H", "-c", "-A", "-l", "selftest", "-l", "scterc", path];
    type Parse = fn(&str, &str, i32) -> Result<Smart, SmartError>;
    let ask = |arguments: &[&str], parse: Parse| {
        let answer = tool::ask("smartctl", arguments, ANSWER_WITHIN)?;
        parse(path, &answer.out, answer.status.unwrap_or(CAN_NOT_OPEN))
    };
    match ask(&arguments, parse) {
        // Most bridges speak SAT, even those unknown to smartctl.
        Err(SmartError::Refused(_, why)) if why.contains(UNKNOWN_BRIDGE) => {
            ask(&[&["-d", "sat"], &arguments[..]].concat(), parse_by_sat)
        }
        answer => answer,
    }
}

/// smartctl's message for a disk behind a USB bridge that isn't in its table.
const UNKNOWN_BRIDGE: &str = "Unknown USB bridge";

/// Its message when the command that queries the power mode fails.
const ANSWERS_NOTHING: &str = "Device is in SLEEP mode";

/// The bits of smartctl's exit status (smartctl(8), "EXIT STATUS").
const WRONG_COMMAND_LINE: i32 = 1 << 0;
const CAN_NOT_OPEN: i32 = 1 << 1;
const DISK_FAILING: i32 = 1 << 3;
const PREFAIL_BELOW_THRESHOLD: i32 = 1 << 4;
const SELF_TEST_ERRORS: i32 = 1 << 7;

/// Attributes whose raw value should be zero: they precede many failures (Backblaze, "What SMART
/// Stats Tell Us About Hard Drives", 2016).
const SHOULD_BE_ZERO: [(u32, &str); 5] = [
    (5, "reallocated sectors"),
    (187, "reported uncorrectable errors"),
    (188, "command timeouts"),
    (197, "pending sectors"),
    (198, "offline uncorrectable sectors"),
];

/// Parses an answer that came with this exit status.
///
/// # Errors
/// [`SmartError::Form`] when it isn't JSON as smartctl writes it, [`SmartError::Asleep`] when the
/// disk is in standby, [`SmartError::Refused`] when it could not be opened or asked.
pub fn parse(path: &str, text: &str, status: i32) -> Result<Smart, SmartError> {
    let report: Report =
        serde_json::from_str(text).map_err(|error| SmartError::Form(path.to_owned(), error))?;
    if status & (WRONG_COMMAND_LINE | CAN_NOT_OPEN) != 0 {
        let said = report.smartctl.messages.iter().map(|message| message.string.as_str());
        let said = said.collect::<Vec<_>>().join("; ");
        let asleep = ["STANDBY", "SLEEP"].iter().any(|word| said.contains(word));
        return Err(match asleep {
            true => SmartError::Asleep(path.to_owned()),
            false => SmartError::Refused(path.to_owned(), said),
        });
    }
    Ok(Smart {
        health: report.health(status),
        temperature_c: report.temperature.as_ref().and_then(Temperature::degrees),
        error_recovery: report.error_recovery(),
    })
}

/// Parses an answer from a disk that was only assumed to speak SAT. If it answers no ATA command at
/// all, as USB sticks do, smartctl says that it is in SLEEP mode.
///
/// # Errors
/// As [`parse`]; a disk that answers nothing is [`SmartError::Refused`].
pub fn parse_by_sat(path: &str, text: &str, status: i32) -> Result<Smart, SmartError> {
    match parse(path, text, status) {
        Err(SmartError::Asleep(_)) if text.contains(ANSWERS_NOTHING) => {
            let why = format!("{UNKNOWN_BRIDGE}, and it doesn't speak SAT");
            Err(SmartError::Refused(path.to_owned(), why))
        }
        answer => answer,
    }
}

#[derive(Deserialize)]
struct Report {
    smartctl: Smartctl,
    smart_status: Option<SmartStatus>,
    ata_smart_attributes: Option<Attributes>,
    ata_sct_capabilities: Option<SctCapabilities>,
    ata_sct_erc: Option<SctErc>,
    nvme_smart_health_information_log: Option<NvmeLog>,
    scsi_grown_defect_list: Option<u64>,
    temperature: Option<Temperature>,
    #[serde(default)]
    scsi_error_counter_log: ScsiErrors,
}

#[derive(Deserialize)]
struct Temperature {
    /// If a disk reports nonsense here, the rest still counts.
    current: Option<Value>,
}

impl Temperature {
    fn degrees(&self) -> Option<i16> {
        self.current.as_ref()?.as_i64()?.try_into().ok()
    }
}

/// Errors of SCSI and SAS disks; corrected ones mean nothing, all disks have many.
#[derive(Default, Deserialize)]
struct ScsiErrors {
    read: Option<ScsiCounters>,
    write: Option<ScsiCounters>,
    verify: Option<ScsiCounters>,
}

#[derive(Deserialize)]
struct ScsiCounters {
    #[serde(default)]
    total_uncorrected_errors: u64,
}

#[derive(Deserialize)]
struct Smartctl {
    #[serde(default)]
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    string: String,
}

#[derive(Deserialize)]
struct SmartStatus {
    passed: Option<bool>,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(default)]
    table: Vec<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    id: u32,
    raw: Raw,
}

#[derive(Deserialize)]
struct Raw {
    /// Sometimes nonsense beyond 64 bits: only whether it is zero matters.
    value: Value,
}

#[derive(Deserialize)]
struct SctCapabilities {
    error_recovery_control_supported: Option<bool>,
}

#[derive(Deserialize)]
struct SctErc {
    read: Option<SctLimit>,
}

#[derive(Deserialize)]
struct SctLimit {
    enabled: bool,
    deciseconds: Option<u64>,
}

#[derive(Deserialize)]
struct NvmeLog {
    #[serde(default)]
    critical_warning: u64,
    #[serde(default)]
    media_errors: u64,
    #[serde(default)]
    percentage_used: u64,
}

/// The bits of an NVMe disk's critical warning (NVM Express Base Specification, SMART / Health
/// Information log).
const CRITICAL: [(u64, &str); 6] = [
    (1 << 0, "too few spare blocks"),
    (1 << 1, "too hot or too cold"),
    (1 << 2, "not reliable any more"),
    (1 << 3, "read-only"),
    (1 << 4, "its memory's backup has failed"),
    (1 << 5, "its persistent memory is unreliable"),
];

impl NvmeLog {
    fn warnings(&self) -> impl Iterator<Item = &'static str> + '_ {
        CRITICAL.iter().filter(|(bit, _)| self.critical_warning & bit != 0).map(|(_, what)| *what)
    }
}

impl Report {
    fn health(&self, status: i32) -> Health {
        let passed = self.smart_status.as_ref().and_then(|status| status.passed);
        if passed == Some(false) || status & DISK_FAILING != 0 {
            let reasons: Vec<&str> =
                self.nvme_smart_health_information_log.iter().flat_map(NvmeLog::warnings).collect();
            let mut why = "SMART's own verdict is FAILED".to_owned();
            if !reasons.is_empty() {
                why = format!("{why}: {}", reasons.join(", "));
            }
            return Health::Failing { why };
        }
        let doubts = self.doubts(status);
        match (doubts.is_empty(), passed) {
            (false, _) => Health::Doubtful { why: doubts.join(", ") },
            (true, Some(_)) => Health::Good,
            (true, None) => Health::Unknown,
        }
    }

    fn doubts(&self, status: i32) -> Vec<String> {
        let mut doubts = Vec::new();
        let mut counted = |count: u64, of: &str| {
            if count > 0 {
                doubts.push(format!("{count} {of}"));
            }
        };
        for attribute in self.ata_smart_attributes.iter().flat_map(|attributes| &attributes.table) {
            let named = SHOULD_BE_ZERO.iter().find(|(id, _)| *id == attribute.id);
            if let (Some((id, name)), Some(raw)) = (named, attribute.raw.value.as_u64()) {
                counted(count_in(*id, raw), name);
            }
        }
        counted(self.scsi_grown_defect_list.unwrap_or(0), "grown defects");
        let ScsiErrors { read, write, verify } = &self.scsi_error_counter_log;
        let uncorrected = [read, write, verify].into_iter().flatten();
        let uncorrected =
            uncorrected.fold(0, |sum: u64, of| sum.saturating_add(of.total_uncorrected_errors));
        counted(uncorrected, "uncorrected errors");
        if let Some(nvme) = &self.nvme_smart_health_information_log {
            counted(nvme.media_errors, "media errors");
            match nvme.warnings().collect::<Vec<_>>() {
                named if !named.is_empty() => doubts.extend(named.into_iter().map(str::to_owned)),
                _ if nvme.critical_warning == 0 => {}
                _ => doubts.push(format!("critical warning {:#04x}", nvme.critical_warning)),
            }
            if nvme.percentage_used >= 100 {
                doubts.push(format!("{} % of its rated life used", nvme.percentage_used));
            }
        }
        if status & PREFAIL_BELOW_THRESHOLD != 0 {
            doubts.push("an attribute is below its maker's threshold".to_owned());
        }
        if status & SELF_TEST_ERRORS != 0 {
            doubts.push("a self-test found errors".to_owned());
        }
        doubts
    }

    fn error_recovery(&self) -> Option<ErrorRecovery> {
        let can_limit = self
            .ata_sct_capabilities
            .as_ref()
            .and_then(|capabilities| capabilities.error_recovery_control_supported);
        let read = self.ata_sct_erc.as_ref().and_then(|erc| erc.read.as_ref());
        let limit = read
            .filter(|read| read.enabled)
            .and_then(|read| read.deciseconds)
            .filter(|deciseconds| *deciseconds > 0)
            .map(|deciseconds| Duration::from_millis(deciseconds.saturating_mul(100)));
        if can_limit.is_none() && read.is_none() {
            return None;
        }
        Some(ErrorRecovery { limit, can_limit: can_limit.unwrap_or(read.is_some()) })
    }
}

/// Some makers' command timeouts (188) are three counters of 16 bits; the lowest counts timeouts of
/// any length, which a loose cable causes too: only many of them mean something.
fn count_in(id: u32, raw: u64) -> u64 {
    const FEW: u64 = 100;
    match id {
        188 => Some(raw & 0xffff).filter(|count| *count > FEW).unwrap_or(0),
        _ => raw,
    }
}
