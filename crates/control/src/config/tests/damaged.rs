//! Text that isn't a config.

use super::*;
use proptest::prelude::*;

proptest! {
    /// A randomly damaged file never causes a panic, and every error names a line of the file.
    #[test]
    fn damaged_configs_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, ".{0,6}"), 1..8)
    ) {
        let mut text = full();
        for (at, length, with) in edits {
            let boundaries: Vec<usize> =
                text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect();
            let first = at.index(boundaries.len());
            let last = (first + length).min(boundaries.len() - 1);
            text.replace_range(boundaries[first]..boundaries[last], &with);
        }
        match parse(&text) {
            Err(errors) => {
                let lines = text.lines().count().max(1) + 1;
                prop_assert!(!errors.errors.is_empty());
                prop_assert!(errors.errors.iter().all(|e| e.line <= lines));
                let _ = errors.to_string();
            }
            Ok(_) => {
                let mut editor = ConfigEditor::from_text(&text, Path::new("b.toml")).unwrap();
                let _ = editor.remove_link("fibre");
                let _ = editor.set_link("3g-1", &LinkChange { cap_up: Some("1Mbit".into()), ..Default::default() });
                let _ = editor.check();
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "(?s).{0,400}") {
        let _ = parse(&text);
        let _ = text.parse::<Endpoint>();
        let _ = text.parse::<Prefix>();
        let _ = text.parse::<PortRange>();
        let _ = text.parse::<Dscp>();
    }
}
