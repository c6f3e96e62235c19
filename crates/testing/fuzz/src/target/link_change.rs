use braid_control::config::ConfigEditor;
use braid_control::request::{NewLink, NewMode};
use std::path::Path;

const CONFIG: &str = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
    [[link]]\nname = \"dsl\" # the old one\ninterface = \"eth0\"\n\
    [[link]]\nname = \"lte\"\ninterface = \"wwan0\"\n\
    quota = { bytes = \"20GB\", per = \"month\", reset_day = 3 }\n\
    [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
    endpoints = [\"192.0.2.1:1\"]\nallowed_ips = [\"0.0.0.0/0\"]\n";

/// The body of a control request that adds or changes a link, or sets the mode. Applied to a
/// config, it leaves the other links unchanged, and the result can be read again.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn link_change(data: &[u8]) {
    let Ok(new) = serde_json::from_slice::<NewLink>(data) else {
        let _ = serde_json::from_slice::<NewMode>(data);
        return;
    };
    let file = Path::new("/nonexistent/braid.toml");
    for name in [new.name.as_str(), "lte"] {
        let mut editor = ConfigEditor::from_text(CONFIG, file).expect("the config is right");
        let before = editor.check().expect("the config is right");
        let done = match before.link(name) {
            Some(_) => editor.set_link(name, &new.link),
            None => editor.add_link(name, &new.link),
        };
        let Ok(after) = done.map_err(drop).and_then(|()| editor.check().map_err(drop)) else {
            continue;
        };
        assert!(after.link(name).is_some());
        assert_eq!(after.peers, before.peers);
        for link in before.links.iter().filter(|link| link.name.as_str() != name) {
            assert_eq!(after.link(link.name.as_str()), Some(link));
        }
    }
}
