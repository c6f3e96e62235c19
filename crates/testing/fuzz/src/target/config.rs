use braid_control::config::{Config, ConfigEditor, Mode};
use std::path::Path;

/// A config file. A valid one stays valid and the same in the editor; an invalid one gives an error
/// that names the file.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let file = Path::new("/nonexistent/braid.toml");
    let config = match Config::parse(&text, file) {
        Ok(config) => config,
        Err(errors) => {
            assert!(!errors.errors.is_empty());
            assert!(errors.to_string().contains("braid.toml"));
            assert!(ConfigEditor::from_text(&text, file).is_err());
            return;
        }
    };
    let mut editor = ConfigEditor::from_text(&text, file).expect("the config is right");
    assert_eq!(editor.check().as_ref(), Ok(&config));
    if editor.set_mode(Mode::Broadcast).is_ok()
        && let Ok(changed) = editor.check()
    {
        assert_eq!(changed.interface.mode, Mode::Broadcast);
        assert_eq!(changed.links, config.links);
        assert_eq!(changed.peers, config.peers);
    }
    for link in &config.links {
        assert_eq!(config.link(link.name.as_str()), Some(link));
    }
    for peer in &config.peers {
        assert_eq!(config.peer(peer.name.as_str()), Some(peer));
    }
}
