use super::carry_out::{Consent, carry_out};
use super::encrypt::{Encrypt, PoolIdentity};
use super::locked;
use super::mount_point::without_links;
use super::random_uuid::random_uuid;
use super::seen::Seen;
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::offered::Offered;
use braid_control::config::PoolsConfig;
use braid_pool::disk::Disk;
use braid_pool::layout::{Layout, MdFilesystem};
use braid_pool::mount_options::MountOptions;
use braid_pool::observed::ObservedPool;
use braid_pool::planner::{self, NewPool, PoolName};
use braid_pool::uuid::Uuid;
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool create data --layout btrfs-raid1 /dev/sdb /dev/sdc --mount /srv/data\n  braid pool create fast --layout md-raid10-f2 --fs xfs /dev/sdd /dev/sde --erase WD-WCC4E1 --dry-run\n  braid pool create safe --layout btrfs-raid1 --encrypt /dev/sdb /dev/sdc\n  braid pool create safe --layout btrfs-raid1 --encrypt=passphrase /dev/sdb /dev/sdc"
)]
pub struct Create {
    #[command(flatten)]
    consent: Consent,
    /// The pool's name: label of the filesystem and name of the array
    name: PoolName,
    /// Such as btrfs-raid1, md-raid10-f2; `braid pool plan` ranks them
    #[arg(long, value_parser = Offered::<Layout>::new(Layout::ALL), hide_possible_values = true)]
    layout: Layout,
    /// Filesystem on an md array: ext4 or xfs
    #[arg(long, value_name = "FILESYSTEM", default_value = "ext4")]
    fs: MdFilesystem,
    /// Mount point, now and at boot [default: /srv/NAME]
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
    /// Mount options besides noatime and nofail, such as compress=zstd:3
    #[arg(long, value_name = "OPTIONS")]
    options: Option<MountOptions>,
    /// Destroy all data on the disk with this serial number (repeat for each disk)
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
    /// Allow a layout that its own developers call unstable
    #[arg(long)]
    accept_unstable: bool,
    #[command(flatten)]
    encrypt: Encrypt,
    /// Disks or partitions: path, link or serial number
    #[arg(required = true, value_name = "DISK")]
    disks: Vec<String>,
}

impl Create {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut seen = Seen::now(&self.consent.place.config());
        let mut disks = seen.disks(&self.disks)?;
        self.check_name(&seen, &disks, global)?;
        let mount_at = self.mount.clone().unwrap_or_else(|| format!("/srv/{}", self.name));
        let mount_at = without_links(&mount_at)?;
        let (place, dry_run) = (&self.consent.place, self.consent.dry_run());
        let mut to_encrypt: Vec<_> = disks.iter_mut().collect();
        let (host, uuids) = (&seen.host, (random_uuid()?, random_uuid()?));
        let named = PoolIdentity { name: self.name.as_str(), uuid: pool_uuid(self.layout, uuids) };
        // A dry run first, so that nobody is asked for a passphrase in vain.
        self.encrypt.new_pool(named, &mount_at, &mut to_encrypt, host, place, true)?;
        planner::create(&self.wanted(&seen, disks.clone(), &mount_at, uuids)?, host)?;
        let mut to_encrypt: Vec<_> = disks.iter_mut().collect();
        let lent =
            self.encrypt.new_pool(named, &mount_at, &mut to_encrypt, host, place, dry_run)?;
        let new = self.wanted(&seen, disks, &mount_at, uuids)?;
        let done = carry_out(planner::create(&new, host)?, &self.consent, global);
        drop(lent);
        done
    }

    /// Two pools with one name could only be told apart by their UUIDs, by people and by `apply`. A
    /// pool that is on only these disks will be replaced by the new one.
    fn check_name(&self, seen: &Seen, disks: &[Disk], global: &Global) -> Result<(), Failure> {
        let name = self.name.as_str();
        let is_taken = |path: &str| disks.iter().any(|disk| disk.path == path);
        // Otherwise its disks would be reported as carrying what it left.
        self.consent.place.check_nothing_unfinished(name)?;
        let taken = |by: String| Err(Failure::failed(format!("{by}: choose another name")));
        let stays =
            |pool: &&ObservedPool| !pool.mounts().is_empty() || !pool.member_paths().all(is_taken);
        if let Some(pool) = seen.pools.iter().filter(stays).find(|pool| pool.name() == name) {
            let at = match pool.mounts().first() {
                Some(mount) => format!("mounted at {}", mount.at),
                None => "not mounted".to_owned(),
            };
            return taken(format!(
                "a pool {name} already exists here (UUID {}, {at})",
                pool.uuid()
            ));
        }
        let locked = locked::locked(&seen.host);
        let other = locked.get(name).and_then(|all| all.iter().find(|one| !is_taken(&one.path)));
        if let Some(other) = other {
            return taken(format!(
                "a pool {name} already exists here, and is locked: {0} belongs to it (`wipefs \
                 --all {0}`, if nothing on that disk is wanted)",
                other.path
            ));
        }
        let file = global.config_file();
        // A config that can't be read names nothing.
        let names_it =
            |config: PoolsConfig| config.pools.iter().any(|pool| pool.name.as_str() == name);
        match PoolsConfig::load_if_any(&file).is_ok_and(names_it) {
            true => {
                let file = file.display();
                taken(format!(
                    "[[pool]] {name} in {file} has this name, and `braid pool apply {name}` makes it"
                ))
            }
            false => Ok(()),
        }
    }

    fn wanted(
        &self,
        seen: &Seen,
        disks: Vec<Disk>,
        mount_at: &str,
        (array, filesystem_uuid): (Uuid, Uuid),
    ) -> Result<NewPool, Failure> {
        Ok(NewPool {
            name: self.name.clone(),
            layout: self.layout,
            filesystem: self.fs,
            erase: seen.permission(&self.erase, &disks)?,
            disks,
            mount_at: mount_at.to_owned(),
            options: self.options.clone().unwrap_or_default(),
            array,
            filesystem_uuid,
            accept_unstable: self.accept_unstable,
        })
    }
}

/// Which of a new pool's UUIDs (the array's and the filesystem's) identifies it.
pub fn pool_uuid(layout: Layout, (array, filesystem): (Uuid, Uuid)) -> Uuid {
    match layout {
        Layout::Btrfs(_) => filesystem,
        Layout::Md(_) => array,
    }
}
