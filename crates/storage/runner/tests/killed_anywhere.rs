//! A plan that is killed at any moment comes to its end by resuming, or leaves nothing behind by
//! abandoning: on a simulated host.

use braid_pool::step::{Action, Argv, Condition, Dispensable, Plan, Step, Undo};
use braid_runner::journal::{Log, StepState};
use braid_runner::simulated::{Fate, HostState, SimulatedHost, SimulatedLog};
use braid_runner::{Happening, RunError, abandon, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn resumed_it_reaches_the_wished_state(plan in plans(), first in 0u32..60, second in 0u32..60) {
        let wished = finished(&plan);
        let mut killed = begin(&plan, Fate::dies_after(first));
        if killed.run().is_err() {
            killed.revive(Some(second));
            if killed.run().is_err() {
                killed.revive(None);
                killed.run().unwrap();
            }
        }
        prop_assert_eq!(killed.host.state(), wished);
    }

    #[test]
    fn resumed_after_a_reboot_it_reaches_the_wished_state(plan in plans(), first in 0u32..60) {
        let wished = finished(&plan);
        let mut killed = begin(&plan, Fate::dies_after(first));
        if killed.run().is_err() && !killed.log.reopen().unwrap().record().ended {
            killed.host.reboot();
            killed.revive(None);
            killed.run().unwrap();
            prop_assert_eq!(killed.host.state(), wished);
        }
    }

    #[test]
    fn abandoned_it_leaves_nothing_behind(plan in plans(), first in 0u32..60, second in 0u32..60) {
        let before = begin(&plan, Fate::default()).host.state();
        let mut killed = begin(&plan, Fate::dies_after(first));
        let ended = killed.run().is_ok();
        prop_assume!(!ended);
        killed.revive(Some(second));
        if killed.abandon().is_err() {
            killed.revive(None);
            killed.abandon().unwrap();
        }
        prop_assert_eq!(killed.host.state(), before);
    }
}

#[test]
fn every_single_moment_of_one_plan_is_survived() {
    let plan = one_of_everything();
    let mut whole = begin(&plan, Fate::default());
    whole.run().unwrap();
    let moments = whole.fate.passed();
    assert!(moments > 30, "only {moments} moments");
    for moment in 0..moments {
        let mut killed = begin(&plan, Fate::dies_after(moment));
        assert!(killed.run().is_err(), "moment {moment}");
        let mut resumed = killed.clone_world();
        resumed.run().unwrap();
        assert_eq!(resumed.host.state(), whole.host.state(), "resumed after moment {moment}");
        let before = begin(&plan, Fate::default()).host.state();
        killed.revive(None);
        if let Ok(remains) = killed.abandon() {
            assert_eq!(remains, [], "moment {moment}");
            assert_eq!(killed.host.state(), before, "abandoned after moment {moment}");
        } else {
            assert!(killed.log.record().ended, "moment {moment}");
        }
    }
}

#[test]
fn what_was_so_before_stays_when_abandoned() {
    let plan = plan(vec![line_step(0, "/etc/fstab", "mine"), line_step(1, "/etc/fstab", "new")]);
    for moment in 0.. {
        let mut killed = begin(&plan, Fate::dies_after(moment));
        killed.host.files.insert("/etc/fstab".to_owned(), "mine\n".to_owned());
        if killed.run().is_ok() {
            break;
        }
        killed.revive(None);
        if !killed.log.record().ended {
            killed.abandon().unwrap();
            assert_eq!(killed.host.files["/etc/fstab"], "mine\n", "moment {moment}");
        }
    }
}

#[test]
fn a_condition_that_fails_stops_the_plan_before_anything_is_done() {
    let mut step = line_step(0, "/etc/fstab", "x");
    step.before = vec![Condition::Directory { path: "/srv".to_owned() }];
    let mut world = begin(&plan(vec![step]), Fate::default());
    let error = world.run().unwrap_err();
    assert!(matches!(&error, RunError::Unmet { .. }), "{error}");
    assert!(error.to_string().contains("/srv is a directory"), "{error}");
    assert!(world.host.files.is_empty());
    world.host.folders.push("/srv".to_owned());
    world.run().unwrap();
}

#[test]
fn a_step_that_the_plan_can_do_without_is_passed_over_and_told() {
    let mut unmet = line_step(1, "/etc/fstab", "x");
    unmet.before = vec![Condition::Directory { path: "/srv".to_owned() }];
    let fails = step(2, Action::Run(Argv::new("fails", ["now"])), Vec::new(), Vec::new());
    let steps = vec![folder_step(0, "/a"), unmet, fails, folder_step(3, "/b")];
    let (otherwise, names) = ("so it stays".to_owned(), ["1", "2"]);
    let dispensable =
        names.map(|step| Dispensable { step: step.into(), otherwise: otherwise.clone() });
    let plan = Plan { dispensable: dispensable.to_vec(), ..plan(steps) };
    let mut whole = begin(&plan, Fate::default());
    let mut told = Vec::new();
    run(&mut whole.log, &mut whole.host, &mut |happening| {
        if let Happening::PassedOver { step, why, otherwise } = happening {
            told.push((step.name.clone(), why.to_owned(), otherwise.to_owned()));
        }
    })
    .unwrap();
    assert_eq!(told.iter().map(|each| each.0.as_str()).collect::<Vec<_>>(), names);
    assert!(told[0].1.contains("/srv is a directory"), "{told:?}");
    assert!(told[1].1.contains("fails now") && told[1].2 == otherwise, "{told:?}");
    assert!(whole.log.record().ended);
    assert_eq!(whole.host.folders, ["/a", "/b"]);
    for moment in 0..whole.fate.passed() {
        let mut killed = begin(&plan, Fate::dies_after(moment));
        assert!(killed.run().is_err(), "moment {moment}");
        killed.revive(None);
        if !killed.log.record().ended {
            killed.run().unwrap();
        }
        assert_eq!(killed.host.state(), whole.host.state(), "moment {moment}");
        let states = killed.log.record().steps[1..3].to_vec();
        assert_eq!(states, [StepState::PassedOver; 2], "moment {moment}");
    }
}

#[test]
fn a_step_without_effect_is_told() {
    let mut step = line_step(0, "/etc/fstab", "x");
    step.after = vec![Condition::Directory { path: "/srv".to_owned() }];
    let error = begin(&plan(vec![step]), Fate::default()).run().unwrap_err();
    assert!(matches!(&error, RunError::Ineffective { .. }), "{error}");
}

#[test]
fn what_cannot_be_undone_stays_with_all_it_rests_on() {
    let mut lasting = kernel_step(1, &[("/sys/b", "1")]);
    lasting.undo = Undo::Never("b is for ever".to_owned());
    let mut fails = line_step(3, "/etc/never", "x");
    fails.before = vec![Condition::Directory { path: "/nowhere".to_owned() }];
    let steps = vec![line_step(0, "/etc/a", "a"), lasting, line_step(2, "/etc/c", "c"), fails];
    let mut world = begin(&plan(steps), Fate::default());
    world.run().unwrap_err();
    let remains = world.abandon().unwrap();
    let whys: Vec<&str> = remains.iter().map(|each| each.why.as_str()).collect();
    assert_eq!(whys, ["what stays rests on it: step 1", "b is for ever"]);
    assert_eq!(world.host.files["/etc/a"], "a\n");
    assert_eq!(world.host.files["/etc/c"], "", "the last step was undone");
}

#[test]
fn an_abandoned_plan_cannot_go_on() {
    let mut world = begin(&one_of_everything(), Fate::dies_after(12));
    world.run().unwrap_err();
    world.revive(Some(3));
    world.abandon().unwrap_err();
    world.revive(None);
    let error = world.run().unwrap_err();
    assert!(matches!(&error, RunError::BeingAbandoned { .. }), "{error}");
    world.abandon().unwrap();
}

struct World {
    host: SimulatedHost,
    log: SimulatedLog,
    fate: Fate,
}

impl World {
    fn run(&mut self) -> Result<(), RunError> {
        run(&mut self.log, &mut self.host, &mut |_| {})
    }

    fn abandon(&mut self) -> Result<Vec<braid_runner::Remains>, RunError> {
        abandon(&mut self.log, &mut self.host, &mut |_| {})
    }

    /// A new process on the same host.
    fn revive(&mut self, moments: Option<u32>) {
        self.fate.revive(moments);
        self.log = self.log.reopen().unwrap();
    }

    fn clone_world(&self) -> World {
        let fate = Fate::default();
        let host = self.host.with_fate(&fate);
        World { host, log: self.log.reopen().unwrap().with_fate(&fate), fate }
    }
}

fn begin(plan: &Plan, fate: Fate) -> World {
    let host = SimulatedHost::new(&fate);
    World { host, log: SimulatedLog::begin(plan.clone(), &fate), fate }
}

fn finished(plan: &Plan) -> HostState {
    let mut world = begin(plan, Fate::default());
    world.run().unwrap();
    world.host.state()
}

fn one_of_everything() -> Plan {
    plan(vec![
        folder_step(0, "/srv/data"),
        kernel_step(1, &[("/sys/a", "1"), ("/sys/b", "2"), ("/sys/c", "3")]),
        line_step(2, "/etc/fstab", "UUID=1 /srv/data"),
        file_step(3, "/etc/mdadm.conf", "ARRAY\n"),
    ])
}

/// Plans of up to six steps, each about things of its own.
fn plans() -> impl Strategy<Value = Plan> {
    let kinds = prop::collection::vec((0usize..4, "[a-z]{1,8}"), 1..6);
    kinds.prop_map(|kinds| {
        let step = |(number, (kind, word)): (usize, (usize, String))| match kind {
            0 => folder_step(number, &format!("/srv/{number}-{word}")),
            1 => line_step(number, "/etc/fstab", &format!("{number} {word}")),
            2 => file_step(number, &format!("/etc/{number}"), &word),
            _ => {
                let keys: Vec<String> = (0..3).map(|key| format!("/sys/{number}/{key}")).collect();
                let pairs: Vec<(&str, &str)> =
                    keys.iter().map(|key| (key.as_str(), word.as_str())).collect();
                kernel_step(number, &pairs)
            }
        };
        plan(kinds.into_iter().enumerate().map(step).collect())
    })
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        title: "a test".to_owned(),
        pool: "data".to_owned(),
        claims: Vec::new(),
        warnings: Vec::new(),
        steps,
        after: Vec::new(),
        dispensable: Vec::new(),
    }
}

fn step(number: usize, action: Action, after: Vec<Condition>, undo: Vec<Action>) -> Step {
    Step {
        name: number.to_string(),
        says: format!("step {number}"),
        before: Vec::new(),
        action,
        after,
        undo: Undo::By(undo),
    }
}

fn folder_step(number: usize, path: &str) -> Step {
    let path = path.to_owned();
    step(
        number,
        Action::MakeDirectory { path: path.clone() },
        vec![Condition::Directory { path: path.clone() }],
        vec![Action::RemoveDirectory { path }],
    )
}

fn line_step(number: usize, file: &str, line: &str) -> Step {
    let (file, line) = (file.to_owned(), line.to_owned());
    let ensure = Action::EnsureLine { file: file.clone(), line: line.clone(), instead_of: None };
    let has = Condition::FileHasLine { file: file.clone(), line: line.clone() };
    step(number, ensure, vec![has], vec![Action::RemoveLine { file, line }])
}

fn file_step(number: usize, path: &str, text: &str) -> Step {
    let (path, text) = (path.to_owned(), text.to_owned());
    let write = Action::WriteFile { path: path.clone(), text: text.clone(), mode: 0o644 };
    let holds = Condition::FileHolds { path: path.clone(), text };
    step(number, write, vec![holds], vec![Action::RemoveFile { path }])
}

/// Sets several values one after the other; is undone by `unset`-ing each.
fn kernel_step(number: usize, pairs: &[(&str, &str)]) -> Step {
    let args: Vec<String> =
        pairs.iter().flat_map(|(path, value)| [path.to_string(), value.to_string()]).collect();
    let has = |(path, value): &(&str, &str)| Condition::KernelHas {
        path: path.to_string(),
        value: value.to_string(),
    };
    let unset: Vec<&str> = pairs.iter().map(|(path, _)| *path).collect();
    let after = pairs.iter().map(has).collect();
    let undo = vec![Action::Run(Argv::new("unset", unset))];
    step(number, Action::Run(Argv::new("set", args)), after, undo)
}
