//! The journal on disk.

use braid_pool::step::{Action, Plan, Step, Undo};
use braid_runner::journal::{Event, JournalError, Log, RecordError, StateDir, StepState};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

#[test]
fn what_was_written_is_read_again() {
    let (state, _folder) = state();
    let mut journal = state.begin("data", plan()).unwrap();
    journal.write(Event::Begun { step: 0 }).unwrap();
    journal.write(Event::Done { step: 0 }).unwrap();
    journal.write(Event::Begun { step: 1 }).unwrap();
    journal.write(Event::Failed { step: 1, why: "no".to_owned() }).unwrap();
    drop(journal);
    let journal = state.reopen("data").unwrap();
    assert_eq!(journal.record().plan, plan());
    assert_eq!(journal.record().steps, [StepState::Done, StepState::Begun]);
}

#[test]
fn a_torn_last_line_counts_as_not_written() {
    let (state, folder) = state();
    let mut journal = state.begin("data", plan()).unwrap();
    journal.write(Event::Begun { step: 0 }).unwrap();
    drop(journal);
    let file = current(&folder);
    let whole = fs::read(&file).unwrap();
    for torn in [b"{".as_slice(), b"{\"at\":1,\"event\":\"done\",\"ste", b"\0\0\0\0", b"\0\0\n"] {
        let mut append = fs::OpenOptions::new().append(true).open(&file).unwrap();
        append.write_all(torn).unwrap();
        let mut journal = state.reopen("data").unwrap();
        assert_eq!(journal.record().steps, [StepState::Begun, StepState::Untouched]);
        journal.write(Event::Done { step: 0 }).unwrap();
        drop(journal);
        let steps = state.reopen("data").unwrap().record().steps.clone();
        assert_eq!(steps, [StepState::Done, StepState::Untouched], "after {torn:?}");
        fs::write(&file, &whole).unwrap();
    }
}

#[test]
fn a_broken_line_in_the_middle_is_told_with_its_place() {
    let (state, folder) = state();
    let mut journal = state.begin("data", plan()).unwrap();
    journal.write(Event::Begun { step: 0 }).unwrap();
    drop(journal);
    let file = current(&folder);
    let text = fs::read_to_string(&file).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    fs::write(&file, format!("{first}\nnonsense\n{second}")).unwrap();
    let error = state.reopen("data").unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, JournalError::Record { .. }));
    assert!(message.contains("journal: line 2: "), "{message}");
}

#[test]
fn another_format_and_steps_that_are_not_there_are_refused() {
    let (state, folder) = state();
    drop(state.begin("data", plan()).unwrap());
    let file = current(&folder);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"version\":1", "\"version\":2")).unwrap();
    let error = state.reopen("data").unwrap_err();
    assert!(
        matches!(&error, JournalError::Record { error: RecordError::Version(2), .. }),
        "{error}"
    );
    fs::write(&file, format!("{text}{{\"at\":1,\"event\":\"done\",\"step\":2}}\nx\n")).unwrap();
    let error = state.reopen("data").unwrap_err();
    assert!(
        matches!(&error, JournalError::Record { error: RecordError::Unexpected { line: 2 }, .. }),
        "{error}"
    );
}

#[test]
fn one_plan_at_a_time_and_one_process_at_a_time() {
    let (state, _folder) = state();
    assert!(matches!(state.reopen("data"), Err(JournalError::NothingUnfinished(_))));
    let mut journal = state.begin("data", plan()).unwrap();
    assert!(matches!(state.reopen("data"), Err(JournalError::Busy(_))));
    assert!(matches!(state.begin("data", plan()), Err(JournalError::Busy(_))));
    state.begin("other", plan()).unwrap();
    journal.write(Event::Begun { step: 0 }).unwrap();
    journal.write(Event::Done { step: 0 }).unwrap();
    drop(journal);
    let error = state.begin("data", plan()).unwrap_err().to_string();
    assert!(error.contains("interrupted after 1 of 2 steps"), "{error}");
    assert!(error.contains("braid pool resume data"), "{error}");
    let unfinished: Vec<String> =
        state.unfinished().unwrap().into_iter().map(|(pool, _)| pool).collect();
    assert_eq!(unfinished, ["data", "other"]);
}

#[test]
fn an_ended_journal_is_kept_and_out_of_the_way() {
    let (state, folder) = state();
    for _ in 0..25 {
        state.begin("data", plan()).unwrap().write(Event::Finished).unwrap();
    }
    assert!(matches!(state.reopen("data"), Err(JournalError::NothingUnfinished(_))));
    assert!(state.unfinished().unwrap().is_empty());
    let names = fs::read_dir(folder.path().join("pools/data")).unwrap();
    let kept = names.filter(|name| {
        name.as_ref().unwrap().file_name().to_string_lossy().ends_with(".ended.jsonl")
    });
    assert_eq!(kept.count(), 20);
}

#[test]
fn killed_between_the_last_line_and_the_renaming_it_is_ended() {
    let (state, folder) = state();
    let mut journal = state.begin("data", plan()).unwrap();
    journal.write(Event::Finished).unwrap();
    let ended = fs::read_dir(folder.path().join("pools/data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".ended.jsonl"))
        .unwrap();
    drop(journal);
    fs::rename(ended, current(&folder)).unwrap();
    assert!(matches!(state.reopen("data"), Err(JournalError::NothingUnfinished(_))));
    state.begin("data", plan()).unwrap();
}

#[test]
fn a_name_that_leaves_the_folder_is_refused() {
    let (state, _folder) = state();
    for name in ["", "..", "a/b", ".hidden"] {
        assert!(matches!(state.reopen(name), Err(JournalError::Name(_))), "{name:?}");
    }
}

fn state() -> (StateDir, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (StateDir::new(folder.path().join("pools")), folder)
}

fn current(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("pools/data/journal")
}

fn plan() -> Plan {
    let step = |name: &str| Step {
        name: name.to_owned(),
        says: name.to_owned(),
        before: Vec::new(),
        action: Action::MakeDirectory { path: "/srv/ü\n\"".to_owned() },
        after: Vec::new(),
        undo: Undo::Nothing,
    };
    Plan {
        title: "a test".to_owned(),
        pool: "data".to_owned(),
        claims: Vec::new(),
        warnings: Vec::new(),
        steps: vec![step("one"), step("two")],
        after: Vec::new(),
        dispensable: Vec::new(),
    }
}
