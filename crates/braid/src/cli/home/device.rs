use super::super::failure::Failure;
use braid_control::config::{AnyConfig, DeviceName};
use braid_engines::slot;
use braid_linux::netlink::Netlink;
use std::path::Path;

/// An unused name for the device of this config's tunnel: everything that the tunnel sets on the
/// host (control socket, tables, marks) is derived from it.
pub fn free_device(file: &Path) -> Result<DeviceName, Failure> {
    let present = Netlink::open()
        .and_then(|mut netlink| netlink.links())
        .map_err(|error| Failure::io("looking for network devices", &error))?;
    let mut taken: Vec<String> = present.into_iter().map(|link| link.name).collect();
    taken.extend(names_of_others(file));
    first_free(&taken).ok_or_else(|| Failure::failed("this host already has 64 tunnels"))
}

fn first_free(taken: &[String]) -> Option<DeviceName> {
    // Devices that aren't tunnels have slots too, but don't use them.
    let tunnels = || taken.iter().filter(|name| name.starts_with(PREFIX));
    let is_free =
        |name: &String| !taken.contains(name) && tunnels().all(|other| slot(other) != slot(name));
    let names = (0..MOST).map(|number| format!("{PREFIX}{number}"));
    names.filter(is_free).find_map(|name| name.parse().ok())
}

const PREFIX: &str = "braid";
/// This many names cover every slot.
const MOST: u32 = 4096;

/// Names in the configs next to this one, including those of tunnels that are down.
fn names_of_others(file: &Path) -> Vec<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(files) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    let paths = files.flatten().map(|entry| entry.path());
    let others = paths.filter(|path| {
        path.extension().is_some_and(|it| it == "toml") && path.file_name() != file.file_name()
    });
    others.filter_map(|path| Some(AnyConfig::load(&path).ok()?.name().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_tunnel_has_another_name_and_other_numbers() {
        assert_eq!(first_free(&[]).unwrap().as_str(), "braid0");
        let mut taken = vec!["eth0".to_owned()];
        for _ in 0..64 {
            let name = first_free(&taken).unwrap().as_str().to_owned();
            assert!(taken.iter().all(|other| *other != name));
            let tunnels = taken.iter().filter(|other| other.starts_with("braid"));
            assert!(tunnels.map(|other| slot(other)).all(|other| other != slot(&name)));
            taken.push(name);
        }
        assert!(first_free(&taken).is_none());
    }

    #[test]
    fn a_config_beside_has_its_name_for_itself_though_its_tunnel_is_down() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join("first.toml");
        let text =
            "[interface]\nname = \"braid7\"\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"";
        std::fs::write(&beside, text).unwrap();
        assert_eq!(names_of_others(&folder.path().join("second.toml")), ["braid7"]);
        assert_eq!(names_of_others(&beside), Vec::<String>::new());
    }
}
