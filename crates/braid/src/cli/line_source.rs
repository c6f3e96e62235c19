use super::failure::Failure;
use braid_control::join_line::JoinLine;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// More than any line has; limits how much of a wrong file is read.
const LONGEST: u64 = 16 * 1024;

/// The join line that an argument contains or names: `-` is standard input, anything else a file.
/// Arguments are visible in `ps` and kept in shell histories.
pub fn join_line(argument: &str) -> Result<JoinLine, Failure> {
    let text = match argument {
        "-" => first_line(std::io::stdin().lock())
            .map_err(|error| Failure::io("reading the join line from standard input", &error))?,
        line if line.trim_start().starts_with(JoinLine::PREFIX) => line.to_owned(),
        file => match File::open(file) {
            Ok(opened) => first_line(BufReader::new(opened))
                .map_err(|error| Failure::io(&format!("reading {file}"), &error))?,
            Err(error) if is_path(file) => {
                return Err(Failure::io(&format!("reading the join line from {file}"), &error));
            }
            // More likely a line that lost its beginning than a missing file.
            Err(_) => file.to_owned(),
        },
    };
    Ok(text.parse::<JoinLine>()?)
}

/// Whether it can't be part of a line, whose letters are those of base64url.
fn is_path(argument: &str) -> bool {
    argument.contains(['/', '.', '~'])
}

/// Reads only one line: a terminal's input doesn't end there, as a question follows.
fn first_line(input: impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    input.take(LONGEST).read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_read_and_anything_else_is_the_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "braid-join:AAAA").unwrap();
        let from_file = join_line(file.path().to_str().unwrap()).map(drop).unwrap_err();
        let given = join_line("braid-join:AAAA").map(drop).unwrap_err();
        assert_eq!(from_file.to_string(), given.to_string());
        let neither = join_line("AAAA").map(drop).unwrap_err();
        assert!(neither.to_string().contains("not a join line"), "{neither}");
        for file in ["/no/such/file", "line.txt"] {
            let absent = join_line(file).map(drop).unwrap_err();
            assert!(absent.to_string().contains("No such file"), "{absent}");
        }
    }

    #[test]
    fn one_line_is_read_and_not_without_end() {
        assert_eq!(first_line(&b"one\ntwo"[..]).unwrap(), "one\n");
        assert_eq!(
            first_line(std::io::BufReader::new(std::io::repeat(b'x'))).unwrap().len(),
            16384
        );
    }
}
