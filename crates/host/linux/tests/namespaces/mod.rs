use braid_linux::netns::NetNs;

/// A namespace, or `None` (with a message) if this user may not create one.
pub fn namespace() -> Option<NetNs> {
    match NetNs::new() {
        Ok(namespace) => Some(namespace),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("skipped: network namespaces need root or a user namespace");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
