//! `[[pool]]`: the desired state of pools of disks.

use super::alert;
use super::diagnostic::{ConfigErrors, Diagnostics};
use super::path;
use super::section::{Placed, Section};
use super::upkeep;
use braid_alert::Alert;
use braid_pool::desired::DesiredPool;
use braid_pool::layout::{Layout, MdFilesystem};
use braid_pool::mount_options::MountOptions;
use braid_pool::planner::PoolName;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// Maximum length of a disk's name; far more than needed.
const LONGEST_DISK: usize = 512;
/// Sections of tunnels and groups.
const OTHERS: [&str; 8] =
    ["interface", "engine", "link", "peer", "class", "rule", "routing", "split_tcp"];
/// Sections that a file with only pools may have, for other readers.
const BESIDE: [&str; 2] = ["history", "ui"];

/// The pools in a config; the rest of the file, if any, belongs to a tunnel or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolsConfig {
    /// The file it was read from.
    pub file: PathBuf,
    /// The pools, in their order.
    pub pools: Vec<DesiredPool>,
    /// Notifications of events about them.
    pub alerts: Vec<Alert>,
}

impl PoolsConfig {
    /// Reads and checks the pools in `file`.
    ///
    /// # Errors
    /// All errors, each with its line (0 if the file can't be read). A file without a pool is an
    /// error, too.
    pub fn load(file: &Path) -> Result<PoolsConfig, ConfigErrors> {
        PoolsConfig::parse(&super::read_text(file)?, file)
    }

    /// Like [`PoolsConfig::load`], but a file without pools is valid.
    ///
    /// # Errors
    /// All errors, each with its line (0 if the file can't be read).
    pub fn load_if_any(file: &Path) -> Result<PoolsConfig, ConfigErrors> {
        PoolsConfig::parse_if_any(&super::read_text(file)?, file)
    }

    /// Whether `text` has only pools and alerts about them, so that there is no tunnel or group to
    /// read.
    pub fn is_all_of(text: &str) -> bool {
        let (table, _) = DeTable::parse_recoverable(text);
        let has = |name: &str| table.get_ref().contains_key(name);
        (has("pool") || has("alert")) && !OTHERS.into_iter().any(has)
    }

    /// Reads and checks the pools in `text`, which must have at least one; `file` is named in
    /// errors.
    ///
    /// # Errors
    /// All errors, each with its line. Having no pool is an error, too.
    pub fn parse(text: &str, file: &Path) -> Result<PoolsConfig, ConfigErrors> {
        PoolsConfig::read(text, file, true)
    }

    /// Reads and checks the pools in `text`, if any.
    ///
    /// # Errors
    /// All errors, each with its line.
    pub fn parse_if_any(text: &str, file: &Path) -> Result<PoolsConfig, ConfigErrors> {
        PoolsConfig::read(text, file, false)
    }

    fn read(text: &str, file: &Path, wants_pools: bool) -> Result<PoolsConfig, ConfigErrors> {
        let diagnostics = RefCell::new(Diagnostics::new(text));
        let (table, syntax_errors) = DeTable::parse_recoverable(text);
        for error in &syntax_errors {
            let offset = error.span().map_or(0, |span| span.start);
            diagnostics.borrow_mut().add(offset, format!("not TOML: {}", error.message()));
        }
        let mut root = Section::new("", table, &diagnostics);
        let pools = read_all(&mut root, &diagnostics);
        let base = file.parent().unwrap_or(Path::new(""));
        let alerts = alert::read_all(&mut root, base, &diagnostics);
        for other in OTHERS.into_iter().chain(BESIDE) {
            root.leave(other);
        }
        if wants_pools && !root.has("pool") {
            root.missing("[[pool]]", "write [[pool]] with name, layout and disks");
        }
        root.finish();
        let diagnostics = diagnostics.into_inner();
        if diagnostics.is_empty() {
            return Ok(PoolsConfig { file: file.to_owned(), pools, alerts });
        }
        Err(diagnostics.into_errors(file))
    }
}

/// Reads every `[[pool]]`; contradictions between them are reported.
pub(super) fn read_all(
    root: &mut Section<'_, '_>,
    diagnostics: &RefCell<Diagnostics>,
) -> Vec<DesiredPool> {
    let pools: Vec<Placed<DesiredPool>> =
        root.tables("pool").into_iter().filter_map(read).collect();
    let mut found = diagnostics.borrow_mut();
    for (index, pool) in pools.iter().enumerate() {
        let earlier = || pools.iter().take(index).map(|other| &other.value);
        let places = &pool.places;
        let at = |key: &str| places.key(key).unwrap_or(places.section);
        if earlier().any(|other| other.name == pool.value.name) {
            let what = format!("there are two pools named {}", pool.value.name);
            found.add_with_hint(at("name"), what, "give each a name of its own");
        }
        if let Some(other) = earlier().find(|other| other.mount_at == pool.value.mount_at) {
            let what = format!("pool {} is already mounted at {}", other.name, other.mount_at);
            found.add_with_hint(at("mount"), what, "give each its own mount point");
        }
        for (place, disk) in pool.value.disks.iter().enumerate() {
            let twice = pool.value.disks.iter().take(place).any(|other| other == disk);
            if twice || earlier().any(|other| other.disks.contains(disk)) {
                let what = format!("disk {disk} is already in a pool");
                found.add_with_hint(places.element("disks", place), what, "name each disk once");
            }
        }
    }
    drop(found);
    pools.into_iter().map(|pool| pool.value).collect()
}

fn read(mut section: Section<'_, '_>) -> Option<Placed<DesiredPool>> {
    let name: Option<PoolName> = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"data\"");
    }
    let layout: Option<Layout> = section.parsed("layout");
    if layout.is_none() {
        section.missing("layout", "write layout = \"btrfs-raid1\"; `braid pool plan` ranks them");
    }
    let disks = section.list_by("disks", disk).unwrap_or_default();
    if disks.is_empty() && !section.has("disks") {
        section.missing("disks", "write disks = [\"/dev/disk/by-id/…\", …], or serial numbers");
    }
    let mount = section
        .parsed_by("mount", |text| path::place_path(text, Path::new("")).map(|_| text.to_owned()));
    let options: Option<MountOptions> = section.parsed("options");
    let filesystem: Option<MdFilesystem> = section.parsed("filesystem");
    let accept_unstable = section.boolean("accept_unstable").unwrap_or(false);
    let encrypt = section.boolean("encrypt").unwrap_or(false);
    let upkeep = upkeep::read(&mut section, layout);
    if let Some(layout) = layout {
        check(&section, layout, &disks, filesystem, accept_unstable);
    }
    if let Some(path) = mount.as_deref().filter(|path| !path.starts_with('/')) {
        let what = format!("pool.mount: {path:?} is not an absolute path");
        section.wrong("mount", what, "write mount = \"/srv/data\"");
    }
    let places = section.finish();
    let name = name?;
    let value = DesiredPool {
        mount_at: mount.unwrap_or_else(|| format!("/srv/{name}")),
        options: options.unwrap_or_default(),
        name,
        layout: layout?,
        filesystem: filesystem.unwrap_or_default(),
        disks,
        accept_unstable,
        encrypt,
        upkeep,
    };
    Some(Placed { value, places })
}

/// A device's path, or a serial number.
fn disk(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.len() <= LONGEST_DISK && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err("a disk is a path such as \"/dev/disk/by-id/…\", or a serial number".into()),
    }
}

fn check(
    section: &Section<'_, '_>,
    layout: Layout,
    disks: &[String],
    filesystem: Option<MdFilesystem>,
    accept_unstable: bool,
) {
    if section.has("disks") && disks.len() < layout.min_disks() {
        let what = format!("{layout} needs {} disks, not {}", layout.min_disks(), disks.len());
        section.wrong("disks", what, "name more disks, or another layout");
    }
    if filesystem.is_some() && matches!(layout, Layout::Btrfs(_)) {
        section.wrong(
            "filesystem",
            "pool.filesystem is for md arrays; btrfs is itself a filesystem",
            "remove it",
        );
    }
    if layout.is_unstable() && !accept_unstable {
        section.wrong(
            "layout",
            format!("btrfs itself calls {layout} unstable: a power cut can lose data"),
            "use md-raid5 or md-raid6, or write accept_unstable = true",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[pool]]\nname = \"data\"\nlayout = \"btrfs-raid1\"\ndisks = [\"S1\", \"/dev/disk/by-id/ata-2\"]\n\
        [[pool]]\nname = \"fast\"\nlayout = \"md-raid10-f2\"\nfilesystem = \"xfs\"\ndisks = [\"S3\", \"S4\"]\nmount = \"/var/lib/fast\"\n";

    fn errors(text: &str) -> String {
        PoolsConfig::parse(text, Path::new("braid.toml")).unwrap_err().to_string()
    }

    #[test]
    fn pools_are_read_with_their_defaults() {
        let config = PoolsConfig::parse(GOOD, Path::new("braid.toml")).unwrap();
        let [data, fast] = config.pools.as_slice() else { panic!("{config:?}") };
        assert_eq!((data.mount_at.as_str(), data.filesystem), ("/srv/data", MdFilesystem::Ext4));
        assert_eq!(data.layout.to_string(), "btrfs-raid1");
        assert_eq!((fast.mount_at.as_str(), fast.filesystem), ("/var/lib/fast", MdFilesystem::Xfs));
    }

    #[test]
    fn what_is_done_regularly_has_its_times() {
        let text = GOOD.replacen(
            "[[pool]]\nname = \"fast\"",
            "[pool.scrub]\n[pool.snapshot]\non = \"*:0/15\"\nof = [\".\", \"my photos\"]\ninto = \"snaps\"\n\
             [pool.retain]\npolicy = \"24x1h | 14x1d\"\njitter = \"10min\"\n\
             [pool.replicate]\nto = \"nas:/backup\"\nlimit = \"20Mbit\"\n\
             [[pool]]\nscrub = { on = \"weekly\" }\nname = \"fast\"",
            1,
        );
        let config = PoolsConfig::parse(&text, Path::new("braid.toml")).unwrap();
        let [data, fast] = config.pools.as_slice() else { panic!("{config:?}") };
        let scrub = |pool: &DesiredPool| pool.upkeep.scrub.clone().unwrap().on.to_string();
        assert_eq!((scrub(data), scrub(fast)), ("monthly".to_owned(), "weekly".to_owned()));
        let snapshot = data.upkeep.snapshot.as_ref().unwrap();
        assert_eq!((snapshot.of.len(), snapshot.when.on.as_str()), (2, "*:0/15"));
        let retain = data.upkeep.retain.as_ref().unwrap();
        assert_eq!((retain.folder.as_str(), retain.when.jitter.as_secs()), ("snaps", 600));
        assert_eq!(data.upkeep.replicate.as_ref().unwrap().to.to_string(), "nas:/backup");
        assert_eq!(fast.upkeep.snapshot, None);
        assert!(PoolsConfig::is_all_of(&text) && !PoolsConfig::is_all_of("[interface]\n[[pool]]"));
    }

    #[test]
    fn a_config_without_pools_is_right_where_the_last_one_may_have_gone() {
        let file = Path::new("braid.toml");
        assert_eq!(PoolsConfig::parse_if_any("[interface]\n", file).unwrap().pools, []);
        assert!(PoolsConfig::parse_if_any("[[pool]]\n", file).is_err());
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            ("[interface]\nname = 1\n", "braid.toml:1: [[pool]] is missing"),
            (
                &GOOD.replace("md-raid10-f2", "md-raid7"),
                "braid.toml:7: pool.layout: \"md-raid7\" is no layout",
            ),
            (
                &GOOD.replace("fast\"\nl", "data\"\nl"),
                "braid.toml:6: there are two pools named data",
            ),
            (&GOOD.replace("\"S4\"", "\"S1\""), "braid.toml:9: disk S1 is already in a pool"),
            (&GOOD.replace("f2", "n3"), "braid.toml:9: md-raid10-n3 needs 3 disks, not 2"),
            (
                &GOOD.replace("/var/lib/fast", "/srv/data"),
                "braid.toml:10: pool data is already mounted at /srv/data",
            ),
            (
                &GOOD.replace("/var/lib/fast", "fast"),
                "braid.toml:10: pool.mount: \"fast\" is not an absolute path",
            ),
            (
                &GOOD.replace("md-raid10-f2", "btrfs-raid0"),
                "braid.toml:8: pool.filesystem is for md arrays",
            ),
            (
                &GOOD.replace("btrfs-raid1", "btrfs-raid5"),
                "braid.toml:3: btrfs itself calls btrfs-raid5 unstable",
            ),
            (
                &GOOD.replace("mount", "mout"),
                "braid.toml:10: unknown key \"mout\" in [pool]; did you mean \"mount\"?",
            ),
            (
                &GOOD.replacen(
                    "[[pool]]\nname = \"fast\"",
                    "[pool.replicate]\nto = \"nas:/backup\"\nlimit = \"0Mbit\"\n[[pool]]\nname = \"fast\"",
                    1,
                ),
                "braid.toml:7: pool.replicate.limit: nothing would ever be sent",
            ),
            (
                &format!("{GOOD}snapshot = {{}}\n"),
                "braid.toml:11: pool.snapshot: snapshots need btrfs, which md-raid10-f2",
            ),
            (
                &GOOD.replacen("disks", "scrub.on = \"sometimes\"\ndisks", 1),
                "braid.toml:4: pool.scrub.on: \"sometimes\" begins with no word",
            ),
            (
                &GOOD.replacen("disks", "snapshot = { of = [\"../etc\"] }\ndisks", 1),
                "braid.toml:4: \"../etc\" is not a path inside the pool",
            ),
            (
                &GOOD.replacen("disks", "retain = {}\ndisks", 1),
                "braid.toml:4: [pool.retain] lacks policy",
            ),
            (
                &GOOD.replacen("disks", "retain.policy = \"24 hours\"\ndisks", 1),
                "braid.toml:4: pool.retain.policy: \"24 hours\" has no x",
            ),
            (
                &GOOD.replacen("disks", "replicate = { to = \"nas:\" }\ndisks", 1),
                "braid.toml:4: pool.replicate.to: \"nas:\": the path is missing",
            ),
            (
                &GOOD.replacen("disks", "replicate = { to = \"backup\" }\ndisks", 1),
                "braid.toml:4: pool.replicate.to: \"backup\" is not an absolute path",
            ),
            (
                &GOOD.replacen("disks", "backup = {}\ndisks", 1),
                "braid.toml:4: [pool.backup] lacks to",
            ),
            (
                &GOOD.replacen("disks", "backup = { to = [\"rest:https://a:b@nas/\"] }\ndisks", 1),
                "it has a password in it; that belongs to backup.env",
            ),
            (
                &GOOD.replacen("disks", "scrub = { every = \"day\" }\ndisks", 1),
                "unknown key \"every\" in [pool.scrub]",
            ),
            ("[[pool]]\n", "braid.toml:1: [pool] lacks name"),
            ("[[pol]]\nname = \"x\"\n", "did you mean \"pool\"?"),
        ] {
            let found = errors(text);
            assert!(found.contains(expected), "{expected}\n{found}");
        }
    }
}
