//! A pool's mount point, as the kernel will see it.

use crate::cli::failure::Failure;
use std::fs;
use std::path::Path;

/// The path with symbolic links resolved: otherwise fstab's line and the kernel would name
/// different places, and a harmless-looking path could lead to a system folder. Parts that don't
/// exist yet are kept.
pub fn without_links(path: &str) -> Result<String, Failure> {
    let given = Path::new(path);
    if !given.is_absolute() {
        // It will be refused later.
        return Ok(path.to_owned());
    }
    let found = given.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let Some((above, real)) = found else { return Ok(path.to_owned()) };
    let below = given.strip_prefix(above).unwrap_or(Path::new(""));
    let real = if below.as_os_str().is_empty() { real } else { real.join(below) };
    let text = real.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::failed(format!("{}: fstab wants UTF-8", real.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_followed_and_what_is_not_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| real.join(name).display().to_string();
        fs::create_dir(at("real")).unwrap();
        symlink(at("real"), at("link")).unwrap();
        assert_eq!(without_links(&at("link/new/deep")).unwrap(), at("real/new/deep"));
        assert_eq!(without_links(&at("link")).unwrap(), at("real"));
        assert_eq!(without_links(&at("new")).unwrap(), at("new"));
        for odd in ["srv", "", "/nowhere/../etc/x"] {
            assert_eq!(without_links(odd).unwrap(), odd);
        }
    }
}
