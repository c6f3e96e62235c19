//! Runs fuzz targets on stable Rust for a time:
//! `braid-fuzz [--seconds N] [--seed N] [TARGET]…`, or one input:
//! `braid-fuzz TARGET --input FILE`.

use braid_fuzz::{Fuzzer, TARGETS, Target, seeds, seeds_folder};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("braid-fuzz: {problem}");
            eprintln!("usage: braid-fuzz [--seconds N] [--seed N] [--input FILE] [TARGET]…");
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("targets: {}", names.join(", "));
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("braid-fuzz: {problem}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    seconds: u64,
    seed: u64,
    input: Option<PathBuf>,
    targets: Vec<Target>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = now.as_nanos() as u64;
        let mut arguments = Arguments { seconds: 10, seed, input: None, targets: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            let number = |text: String| {
                text.parse().map_err(|_| format!("{word} {text}: not a whole number"))
            };
            match word.as_str() {
                "--seconds" => arguments.seconds = number(value()?)?,
                "--seed" => arguments.seed = number(value()?)?,
                "--input" => arguments.input = Some(value()?.into()),
                name => arguments
                    .targets
                    .push(Target::named(name).ok_or(format!("there is no target {name:?}"))?),
            }
        }
        if arguments.targets.is_empty() {
            arguments.targets = TARGETS.to_vec();
        }
        Ok(arguments)
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(file) = &arguments.input {
        let input = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        arguments.targets.iter().for_each(|target| (target.run)(&input));
        return Ok(());
    }
    for &target in &arguments.targets {
        let seeds = seeds(&seeds_folder(&target)).map_err(|error| error.to_string())?;
        let time = Duration::from_secs(arguments.seconds);
        match Fuzzer::new(target, seeds, arguments.seed).run_for(time) {
            Ok(count) => println!("{}: {count} inputs, seed {}", target.name, arguments.seed),
            Err(failure) => {
                let file = format!("fuzz-failure-{}-{}", target.name, arguments.seed);
                std::fs::write(&file, &failure.input).map_err(|error| error.to_string())?;
                return Err(format!(
                    "{}: {}\nthe input is in {file}; again: braid-fuzz {} --input {file}",
                    target.name, failure.message, target.name
                ));
            }
        }
    }
    Ok(())
}
