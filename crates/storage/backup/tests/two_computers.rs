//! Another computer forgets while this one backs up to the same target.

mod place;

use braid_backup_targets::{Fault, Proxy, noise};
use place::{Place, s3_at, s3_server};
use std::fs;
use std::sync::Once;

/// What it counted on was no backup's any more: of an earlier backup that was forgotten, say, and
/// removed a day later, while this one went on.
#[test]
fn what_was_removed_while_a_backup_ran_is_missed_before_it_is_said_to_be_done() {
    let place = Place::new(300_000);
    let server = s3_server(&place);
    let vault = place.create(&s3_at(server.address));
    place.back_up(&vault, false).unwrap();
    fs::write(place.path("source/new"), noise(200_000, 7)).unwrap();
    let stored = place.path("s3/backups/of/mine");
    let removed = Once::new();
    let proxy = Proxy::start(server.address, move |request| {
        if request.method == "PUT" && request.path.contains("data") {
            removed.call_once(|| {
                for kind in ["snapshots", "index", "data"] {
                    fs::remove_dir_all(stored.join(kind)).unwrap();
                }
            });
        }
        Fault::None
    });
    let busy = place.open(&s3_at(proxy.address)).unwrap();
    let error = place.back_up(&busy, false).unwrap_err().to_string();
    assert!(error.contains("another computer has removed what"), "{error}");
    assert!(vault.backups().unwrap().is_empty(), "none that lacks something");
    // Again, as it says.
    place.back_up(&place.open(&s3_at(server.address)).unwrap(), true).unwrap();
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    place.restore(&vault, "back").unwrap();
    assert_eq!(place.differences(&place.path("back")), Vec::<String>::new());
}
