//! Encryption of the disks that a pool takes.

use super::carry_out::StateFolders;
use super::random_uuid::random_uuid;
use super::secret::{self, Lent, Secret};
use crate::cli::failure::{Failure, FailureKind};
use braid_disks::tool::{self, ToolError};
use braid_pool::disk::Disk;
use braid_pool::luks::{self, CrypttabLine, Encryption, HEADER_BYTES, Header, LuksVolume, Unlock};
use braid_pool::observed::{ObservedHost, ObservedPool};
use braid_pool::planner::{self, Change, PoolName};
use braid_pool::step::{Action, Condition, Plan};
use braid_pool::uuid::Uuid;
use braid_runner::journal::{Record, StepState};
use clap::{Args, ValueEnum};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default folder of pools' key files.
const KEY_FILES: &str = "/etc/braid/keys";

/// Options of the commands that give a pool disks.
#[derive(Args)]
pub struct Encrypt {
    /// Encrypt the disks (LUKS2), opened at boot by HOW. Disks added to an encrypted pool later are
    /// encrypted like the others without this option
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "key-file"
    )]
    encrypt: Option<How>,
    /// The key file; made if it isn't there [default: /etc/braid/keys/POOL.key]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    key_file: Option<PathBuf>,
    /// Read the passphrase from this file (- for standard input) instead of asking
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// With --encrypt=tang: the server's address
    #[arg(long, value_name = "URL", hide_short_help = true)]
    tang: Option<String>,
    /// With --encrypt=tang: the thumbprint of its signing key, as tang-show-keys prints it there
    #[arg(long, value_name = "THUMBPRINT", hide_short_help = true)]
    tang_thumbprint: Option<String>,
    /// Pass discards (TRIM) on to the disks; whoever has a disk can then see which blocks are free
    #[arg(long, hide_short_help = true)]
    allow_discards: bool,
}

/// What opens a pool at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// A file on the system's disk
    KeyFile,
    /// `braid pool open`, which asks for the passphrase
    Passphrase,
    /// The computer's TPM2, or the passphrase
    Tpm2,
    /// A Tang server in the network, or the passphrase
    Tang,
}

/// A pool's name and UUID, which are written to its volumes.
#[derive(Clone, Copy)]
pub struct PoolIdentity<'a> {
    pub name: &'a str,
    pub uuid: Uuid,
}

/// The settings that all disks of a pool share.
struct PoolEncryption {
    pool: String,
    pool_uuid: Uuid,
    unlock: Unlock,
    key_file: String,
    makes_key_file: bool,
    discards: bool,
    headers: String,
}

impl Encrypt {
    /// Encrypt like the pool's other disks.
    pub fn like_the_others(passphrase_file: Option<PathBuf>) -> Encrypt {
        Encrypt { encrypt: None, passphrase_file, ..Encrypt::by_key_file() }
    }

    /// Unlock with a key file at its default place.
    pub fn by_key_file() -> Encrypt {
        Encrypt {
            encrypt: Some(How::KeyFile),
            key_file: None,
            passphrase_file: None,
            tang: None,
            tang_thumbprint: None,
            allow_discards: false,
        }
    }

    /// Encrypts a new pool's disks, if the user wants that. The returned value must live until the
    /// plan is carried out.
    pub fn new_pool(
        &self,
        new: PoolIdentity<'_>,
        mount_at: &str,
        disks: &mut [&mut Disk],
        host: &ObservedHost,
        place: &StateFolders,
        dry_run: bool,
    ) -> Result<Option<Lent>, Failure> {
        let Some(how) = self.encrypt else {
            self.check_unused()?;
            return Ok(None);
        };
        let (encryption, lent) = self.begun(new, how, host, place, dry_run)?;
        self.check_fits(&encryption.unlock)?;
        if Path::new(&encryption.key_file).starts_with(mount_at) {
            let why = format!(
                "the key file {} would be on the pool that it opens; keep it elsewhere",
                encryption.key_file
            );
            return Err(Failure::new(FailureKind::Usage, why));
        }
        set(disks.iter_mut().map(|disk| &mut **disk), &encryption)?;
        Ok(lent)
    }

    /// Encrypts the disks that a change adds, like the pool's others or as the user wants.
    pub fn changed(
        &self,
        pool: &ObservedPool,
        host: &ObservedHost,
        change: &mut Change,
        place: &StateFolders,
        dry_run: bool,
    ) -> Result<Option<Lent>, Failure> {
        let disks = change.new_disks();
        if disks.is_empty() {
            return Ok(None);
        }
        let Some((encryption, lent)) = self.as_the_others(pool, host, place, dry_run)? else {
            self.check_unused()?;
            return Ok(None);
        };
        self.check_fits(&encryption.unlock)?;
        set(disks.into_iter(), &encryption)?;
        Ok(lent)
    }

    /// The same for disks that may not all be used.
    pub fn prepared<'a>(
        &self,
        pool: &ObservedPool,
        host: &ObservedHost,
        disks: impl Iterator<Item = &'a mut Disk>,
        place: &StateFolders,
        dry_run: bool,
    ) -> Result<Option<Lent>, Failure> {
        let Some((encryption, lent)) = self.as_the_others(pool, host, place, dry_run)? else {
            return Ok(None);
        };
        set(disks, &encryption)?;
        Ok(lent)
    }

    fn as_the_others(
        &self,
        pool: &ObservedPool,
        host: &ObservedHost,
        place: &StateFolders,
        dry_run: bool,
    ) -> Result<Option<(PoolEncryption, Option<Lent>)>, Failure> {
        let volumes: Vec<&LuksVolume> = planner::volumes_below(pool, host).collect();
        let whole = volumes.iter().find(|volume| volume.header != Header::Gone);
        let Some(first) = whole.or(volumes.first()) else {
            let Some(how) = self.encrypt else {
                return Ok(None);
            };
            let name = pool.name();
            name.parse::<PoolName>().map_err(|error| Failure::failed(error.to_string()))?;
            let of = PoolIdentity { name: &name, uuid: pool.uuid() };
            return self.begun(of, how, host, place, dry_run).map(Some);
        };
        let name = first.pool.clone().unwrap_or_else(|| pool.name());
        let line = volumes.iter().find_map(|volume| line_of(volume, host));
        let unlock = match (line.as_ref().map(CrypttabLine::unlock), self.encrypt) {
            (Some(Unlock::Tang { .. }), _) | (None, Some(How::Tang)) => self.tang()?,
            (Some(unlock), _) => unlock,
            (None, Some(How::Tpm2)) => Unlock::Tpm2,
            (None, Some(How::KeyFile)) => Unlock::KeyFile,
            (None, _) => Unlock::Passphrase,
        };
        if let Some(how) = self.encrypt.filter(|how| !how.is(&unlock)) {
            let why = format!(
                "pool {name} is opened by {unlock}, and all its disks must be the same: leave out \
                 --encrypt={}",
                how.text()
            );
            return Err(Failure::new(FailureKind::Usage, why));
        }
        check_able(host, &unlock)?;
        let told = line.and_then(|line| line.key_file.map(str::to_owned));
        let told = self.key_file.as_ref().map(|file| file.display().to_string()).or(told);
        let (key_file, lent) = match (&unlock, told) {
            (Unlock::KeyFile, Some(file)) => (file, None),
            _ => self.passphrase(&name, false, dry_run)?,
        };
        if lent.is_none() && !dry_run && !Path::new(&key_file).exists() {
            return Err(Failure::failed(format!(
                "the key file {key_file}, which opens pool {name}, is missing: `braid pool doctor \
                 {name}` says how to put it back"
            )));
        }
        if !dry_run && !secret::opens(&key_file, &first.path)? {
            let what = if lent.is_some() { "this passphrase" } else { key_file.as_str() };
            return Err(Failure::failed(format!(
                "{what} doesn't open {}, a disk of pool {name}: all its disks must have the same \
                 key",
                first.path
            )));
        }
        let headers = headers(place, &name)?;
        let pool_uuid = volumes.iter().find_map(|volume| volume.pool_uuid);
        let pool_uuid = pool_uuid.unwrap_or_else(|| pool.uuid());
        let discards = self.allow_discards || volumes.iter().all(|volume| volume.discards);
        let encryption = PoolEncryption {
            pool: name,
            pool_uuid,
            unlock,
            key_file,
            makes_key_file: false,
            discards,
            headers,
        };
        Ok(Some((encryption, lent)))
    }

    /// For a pool without any encrypted disk so far.
    fn begun(
        &self,
        PoolIdentity { name, uuid }: PoolIdentity<'_>,
        how: How,
        host: &ObservedHost,
        place: &StateFolders,
        dry_run: bool,
    ) -> Result<(PoolEncryption, Option<Lent>), Failure> {
        let unlock = match how {
            How::KeyFile => Unlock::KeyFile,
            How::Passphrase => Unlock::Passphrase,
            How::Tpm2 => Unlock::Tpm2,
            How::Tang => self.tang()?,
        };
        check_able(host, &unlock)?;
        let mut makes_key_file = false;
        let (key_file, lent) = match how {
            How::KeyFile => {
                let file = self.key_file.clone();
                let file =
                    file.unwrap_or_else(|| PathBuf::from(KEY_FILES).join(format!("{name}.key")));
                makes_key_file = check_key_file(&file)?;
                (file.display().to_string(), None)
            }
            _ => self.passphrase(name, true, dry_run)?,
        };
        let headers = headers(place, name)?;
        let (pool, pool_uuid, discards) = (name.to_owned(), uuid, self.allow_discards);
        Ok((
            PoolEncryption { pool, pool_uuid, unlock, key_file, makes_key_file, discards, headers },
            lent,
        ))
    }

    fn passphrase(
        &self,
        name: &str,
        is_new: bool,
        dry_run: bool,
    ) -> Result<(String, Option<Lent>), Failure> {
        if dry_run {
            return Ok((secret::path(name).display().to_string(), None));
        }
        let file = self.passphrase_file.as_deref();
        let secret = match is_new {
            true => Secret::new_one(file)?,
            false => Secret::given(file, &format!("Passphrase of pool {name}: "))?,
        };
        let lent = secret.lend(name)?;
        Ok((lent.text(), Some(lent)))
    }

    fn tang(&self) -> Result<Unlock, Failure> {
        match (&self.tang, &self.tang_thumbprint) {
            (Some(url), Some(thumbprint)) => {
                Ok(Unlock::Tang { url: url.clone(), thumbprint: thumbprint.clone() })
            }
            _ => Err(Failure::new(
                FailureKind::Usage,
                "a Tang server needs --tang URL and --tang-thumbprint THUMBPRINT (on the server: tang-show-keys)",
            )),
        }
    }

    /// Refuses options that don't apply to the way the pool is opened.
    fn check_fits(&self, unlock: &Unlock) -> Result<(), Failure> {
        let is_by_file = *unlock == Unlock::KeyFile;
        let is_tang = matches!(unlock, Unlock::Tang { .. });
        let unfit = [
            ("--key-file", self.key_file.is_some() && !is_by_file),
            ("--passphrase-file", self.passphrase_file.is_some() && is_by_file),
            ("--tang", self.tang.is_some() && !is_tang),
            ("--tang-thumbprint", self.tang_thumbprint.is_some() && !is_tang),
        ];
        match unfit.iter().find(|(_, is_unfit)| *is_unfit) {
            None => Ok(()),
            Some((option, _)) => {
                let why = format!("{option} is of no use here: {unlock} opens the pool");
                Err(Failure::new(FailureKind::Usage, why))
            }
        }
    }

    /// Refuses options that would have no effect.
    fn check_unused(&self) -> Result<(), Failure> {
        let given = self.key_file.is_some()
            || self.passphrase_file.is_some()
            || self.tang.is_some()
            || self.tang_thumbprint.is_some()
            || self.allow_discards;
        match given {
            false => Ok(()),
            true => Err(Failure::new(FailureKind::Usage, "this option needs --encrypt, too")),
        }
    }
}

impl How {
    fn is(self, unlock: &Unlock) -> bool {
        match unlock {
            Unlock::KeyFile => self == How::KeyFile,
            Unlock::Passphrase => self == How::Passphrase,
            Unlock::Tpm2 => self == How::Tpm2,
            Unlock::Tang { .. } => self == How::Tang,
        }
    }

    fn text(self) -> &'static str {
        match self {
            How::KeyFile => "key-file",
            How::Passphrase => "passphrase",
            How::Tpm2 => "tpm2",
            How::Tang => "tang",
        }
    }
}

/// Checks that this host can do it, before any disk is touched.
fn check_able(host: &ObservedHost, unlock: &Unlock) -> Result<(), Failure> {
    if host.lacks_dm_crypt {
        let why = "encryption needs dm-crypt, which this kernel lacks: install the kernel's \
                   modules (`modprobe dm-crypt` must work)";
        return Err(Failure::failed(why));
    }
    let needed = match unlock {
        Unlock::KeyFile | Unlock::Passphrase => None,
        Unlock::Tpm2 => Some(("systemd-cryptenroll", "systemd-cryptsetup")),
        Unlock::Tang { .. } => Some(("clevis", "clevis-luks clevis-systemd")),
    };
    for (program, package) in std::iter::once(("cryptsetup", "cryptsetup")).chain(needed) {
        if let Err(ToolError::Missing(_)) = tool::ask(program, &["--version"], ANSWERS_WITHIN) {
            let why = format!("{program} is not installed: `apt install {package}`");
            return Err(Failure::failed(why));
        }
    }
    let has_tpm = || fs::read_dir("/sys/class/tpmrm").is_ok_and(|mut all| all.next().is_some());
    if *unlock == Unlock::Tpm2 && !has_tpm() {
        return Err(Failure::failed(
            "this computer has no TPM2, or it is disabled in the firmware: use --encrypt=key-file \
             or --encrypt=passphrase",
        ));
    }
    match unlock {
        Unlock::Tang { url, thumbprint } => check_answers(url, thumbprint),
        _ => Ok(()),
    }
}

/// Checks that the server answers and has this thumbprint: otherwise disks would be encrypted for a
/// key that nobody gives out.
fn check_answers(url: &str, thumbprint: &str) -> Result<(), Failure> {
    let pin = luks::tang_pin(url, thumbprint);
    let why = match tool::ask("clevis", &["encrypt", "tang", &pin], SERVER_ANSWERS_WITHIN) {
        Ok(answer) if answer.status == Some(0) => return Ok(()),
        Ok(answer) => answer.err.lines().next().unwrap_or("no word").trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::failed(format!(
        "the Tang server {url} doesn't give out keys under the thumbprint {thumbprint}: {why}\ncheck that `curl {url}/adv` answers, and that `tang-show-keys` prints this thumbprint there"
    )))
}

/// How long a program may take to report its version.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How long a server may take. clevis itself waits as long as TCP does.
const SERVER_ANSWERS_WITHIN: Duration = Duration::from_secs(90);

/// The crypttab line that opens a volume.
pub fn line_of<'a>(volume: &LuksVolume, host: &'a ObservedHost) -> Option<CrypttabLine<'a>> {
    luks::crypttab(&host.crypttab).find(|line| line.volume == Some(volume.uuid))
}

/// The folder of the pool's header backups.
pub fn headers(place: &StateFolders, pool: &str) -> Result<String, Failure> {
    Ok(format!("{}/{pool}", place.header_backups()?))
}

/// Whether the file has yet to be created; an existing one must be fit for a key.
fn check_key_file(file: &Path) -> Result<bool, Failure> {
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, why));
    let text = file.to_string_lossy();
    if !file.is_absolute() || text.contains(char::is_whitespace) {
        return refused(format!("{text}: a key file needs an absolute path without spaces"));
    }
    let Ok(about) = fs::metadata(file) else { return Ok(true) };
    match () {
        () if !about.is_file() => refused(format!("{text} is not a file")),
        () if about.len() == 0 => {
            refused(format!("{text} is empty: remove it, or put a key in it"))
        }
        () if is_exposed(&about) => {
            refused(format!("others can read the key: chown root: {text} && chmod 400 {text}"))
        }
        () => Ok(false),
    }
}

/// Whether anybody but root can read a key file.
pub fn is_exposed(about: &fs::Metadata) -> bool {
    about.permissions().mode() & 0o077 != 0 || about.uid() != 0
}

fn set<'a>(
    disks: impl Iterator<Item = &'a mut Disk>,
    encryption: &PoolEncryption,
) -> Result<(), Failure> {
    for disk in disks.filter(|disk| disk.mapping.is_none()) {
        disk.encrypt = Some(Encryption {
            pool: encryption.pool.clone(),
            pool_uuid: encryption.pool_uuid,
            uuid: random_uuid()?,
            unlock: encryption.unlock.clone(),
            key_file: encryption.key_file.clone(),
            makes_key_file: encryption.makes_key_file,
            discards: encryption.discards,
            sector_bytes: sector_bytes(disk),
            headers: encryption.headers.clone(),
        });
    }
    Ok(())
}

/// 4096 if the disk's size allows: an eighth of the initialisation vectors that 512 needs. Smaller
/// sectors of the disk are no obstacle: parts of an encrypted sector are never written alone.
fn sector_bytes(disk: &Disk) -> u32 {
    const LARGE: u32 = 4096;
    let inner = disk.size_bytes.saturating_sub(HEADER_BYTES);
    if inner.is_multiple_of(u64::from(LARGE)) { LARGE } else { disk.sector_bytes }
}

/// The passphrase that an interrupted plan still needs; `None` if it needs none. It must be the one
/// that the plan was started with and that the pool has.
pub fn lent_again(
    record: &Record,
    host: &ObservedHost,
    file: Option<&Path>,
) -> Result<Option<Lent>, Failure> {
    let plan = &record.plan;
    let Some(pool) = lent_path(plan) else { return Ok(None) };
    let mut to_open: Vec<&str> = Vec::new();
    let mut made = Vec::new();
    for (step, state) in plan.steps.iter().zip(&record.steps) {
        for condition in &step.after {
            let Condition::LuksKey { device, uuid, .. } = condition else { continue };
            made.push(*uuid);
            if matches!(state, StepState::Done) {
                to_open.push(device);
            }
        }
    }
    let of_before = host.luks.iter().filter(|volume| {
        volume.pool.as_deref() == Some(&pool)
            && volume.header != Header::Gone
            && !made.contains(&volume.uuid)
    });
    // A volume without a line may have left the pool, with the keys of that time.
    let of_before = of_before.max_by_key(|volume| line_of(volume, host).is_some());
    to_open.extend(of_before.map(|volume| volume.path.as_str()));
    if to_open.is_empty() {
        // No passphrase was used yet, so any is valid.
        return Ok(Some(Secret::new_one(file)?.lend(&pool)?));
    }
    let lent = Secret::given(file, &format!("Passphrase of pool {pool}: "))?.lend(&pool)?;
    for device in to_open {
        if !lent.opens(device)? {
            return Err(Failure::failed(format!(
                "this passphrase doesn't open {device}: it isn't the one that the change was \
                 started with"
            )));
        }
    }
    Ok(Some(lent))
}

/// The same for undoing the plan. If the pool was being created, no passphrase is needed: its
/// volumes are erased, locked or not, so that the plan can be undone even if the passphrase is
/// lost.
pub fn lent_to_undo(
    record: &Record,
    host: &ObservedHost,
    file: Option<&Path>,
) -> Result<Option<Lent>, Failure> {
    let is_made =
        |condition: &Condition| matches!(condition, Condition::OpenAndEmpty { anew: true, .. });
    let makes_pool = record.plan.steps.iter().any(|step| step.before.iter().any(is_made));
    if makes_pool && file.is_none() {
        return Ok(None);
    }
    lent_again(record, host, file)
}

/// The name of the secret that a plan's commands read.
fn lent_path(plan: &Plan) -> Option<String> {
    let words = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Run(argv) => Some(&argv.args),
        _ => None,
    });
    let path = words.flatten().find(|word| secret::is_lent(word))?;
    Path::new(path).file_name()?.to_str().map(str::to_owned)
}
