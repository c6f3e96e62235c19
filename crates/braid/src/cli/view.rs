//! A full-screen view in the terminal, which is repainted as it changes and ended by a key.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::time::{Duration, Instant};

/// A line of text with its tone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub tone: Tone,
}

/// How a line is shown, if there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Head,
    /// Something needs attention.
    Attention,
    /// Something doesn't work.
    Fault,
}

impl From<String> for Line {
    fn from(text: String) -> Line {
        Line { text, tone: Tone::Plain }
    }
}

impl Line {
    pub fn toned(text: String, tone: Tone) -> Line {
        Line { text, tone }
    }

    /// The line with its colour codes (SGR of ECMA-48).
    fn painted(&self, coloured: bool) -> String {
        let code = match self.tone {
            Tone::Head => "1",
            Tone::Attention => "33",
            Tone::Fault => "31",
            Tone::Plain => return self.text.clone(),
        };
        if coloured { format!("\x1b[{code}m{}\x1b[0m", self.text) } else { self.text.clone() }
    }
}

/// All lines, for standard output.
pub fn text(lines: &[Line]) -> String {
    let coloured = is_coloured();
    let lines: Vec<String> = lines.iter().map(|line| line.painted(coloured)).collect();
    lines.join("\n")
}

/// Whether to print colours on standard output (no-color.org).
fn is_coloured() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && unset("NO_COLOR") && !dumb
}

/// A terminal in full-screen mode, restored when this is dropped.
pub struct View {
    before: Termios,
    lines: Vec<Line>,
    /// The first visible line.
    top: usize,
}

/// Enters the alternate screen, without a cursor; and leaves it (xterm's private modes).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const INTERRUPT: u8 = 3;
const END_OF_FILE: u8 = 4;
/// Used if the terminal doesn't report its size.
const USUAL_SIZE: (usize, usize) = (80, 24);

impl View {
    /// `None` if nobody is watching, or no key can be pressed.
    pub fn open() -> Option<View> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut ours = before.clone();
        ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(stdin(), OptionalActions::Now, &ours).ok()?;
        let view = View { before, lines: Vec::new(), top: 0 };
        print(ENTER).ok().map(|()| view)
    }

    /// The terminal's width in columns.
    pub fn width(&self) -> usize {
        size().0
    }

    /// Replaces the view's lines.
    ///
    /// # Errors
    /// Errors of writing to the terminal.
    pub fn paint(&mut self, lines: Vec<Line>) -> io::Result<()> {
        self.lines = lines;
        self.repaint()
    }

    /// Reacts to keys for this time. Returns whether one ended the view.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub fn wait(&mut self, time: Duration) -> io::Result<bool> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let input = stdin();
            let mut ready = [PollFd::new(&input, PollFlags::IN)];
            let timeout = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                // The terminal's size may have changed.
                Err(rustix::io::Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 64];
            let length = rustix::io::read(&input, &mut bytes)?;
            let keys = bytes.get(..length).unwrap_or_default();
            match wish(keys) {
                // No key can be pressed any longer.
                _ if keys.is_empty() => return Ok(true),
                Some(Wish::Quit) => return Ok(true),
                Some(Wish::Scroll(lines)) => self.scroll(lines)?,
                Some(Wish::Page(pages)) => self.scroll(pages * self.page() as isize)?,
                Some(Wish::Top) => self.scroll(isize::MIN)?,
                Some(Wish::Bottom) => self.scroll(isize::MAX)?,
                None => {}
            }
        }
    }

    fn scroll(&mut self, lines: isize) -> io::Result<()> {
        let most = self.lines.len().saturating_sub(self.page());
        self.top = self.top.saturating_add_signed(lines).min(most);
        self.repaint()
    }

    fn page(&self) -> usize {
        size().1.saturating_sub(1).max(1)
    }

    fn repaint(&mut self) -> io::Result<()> {
        let most = self.lines.len().saturating_sub(self.page());
        self.top = self.top.min(most);
        print(&frame(&self.lines, self.top, size(), is_coloured()))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Nobody can be told.
        let _ = print(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => USUAL_SIZE,
    }
}

/// A user's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Quit,
    Scroll(isize),
    Page(isize),
    Top,
    Bottom,
}

/// The command for keys: those of `less`, and cursor keys (ECMA-48, xterm).
fn wish(keys: &[u8]) -> Option<Wish> {
    Some(match keys {
        [b'q' | b'Q' | INTERRUPT | END_OF_FILE | b'\x1b'] => Wish::Quit,
        b"j" | b"\n" | b"\r" | b"\x1b[B" | b"\x1bOB" => Wish::Scroll(1),
        b"k" | b"\x1b[A" | b"\x1bOA" => Wish::Scroll(-1),
        b" " | b"f" | b"\x1b[6~" => Wish::Page(1),
        b"b" | b"\x1b[5~" => Wish::Page(-1),
        b"g" | b"\x1b[H" | b"\x1b[1~" => Wish::Top,
        b"G" | b"\x1b[F" | b"\x1b[4~" => Wish::Bottom,
        _ => return None,
    })
}

/// The whole screen: lines from `top` on, cut at its edge, and a line that explains the keys.
fn frame(lines: &[Line], top: usize, (width, height): (usize, usize), coloured: bool) -> String {
    let page = height.saturating_sub(1).max(1);
    let shown = lines.iter().skip(top).take(page);
    let mut text = "\x1b[H".to_owned();
    for line in shown.clone() {
        let cut = Line { text: line.text.chars().take(width).collect(), tone: line.tone };
        text.push_str(&cut.painted(coloured));
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    let help = match lines.len() > page {
        true => {
            format!("q quits, j and k scroll: {}-{} of {}", top + 1, top + shown.len(), lines.len())
        }
        false => "q quits".to_owned(),
    };
    let help: String = help.chars().take(width).collect();
    text.push_str(&format!("\x1b[{height};1H{help}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<Line> {
        (1..=count).map(|number| Line::from(format!("line {number} äöü"))).collect()
    }

    #[test]
    fn a_frame_is_as_large_as_the_screen_and_says_how_to_leave_it() {
        let all = frame(&lines(3), 0, (7, 10), false);
        assert_eq!(
            all,
            "\x1b[Hline 1 \x1b[K\nline 2 \x1b[K\nline 3 \x1b[K\n\x1b[J\x1b[10;1Hq quits"
        );
        let part = frame(&lines(30), 5, (80, 4), false);
        assert!(part.contains("line 6 äöü") && part.contains("line 8") && !part.contains("line 9"));
        assert!(part.ends_with("j and k scroll: 6-8 of 30"), "{part}");
        for size in [(0, 0), (1, 1), (80, 1)] {
            frame(&lines(3), 2, size, true);
        }
    }

    #[test]
    fn colours_are_there_only_where_they_are_seen() {
        let line = Line::toned("wan is down".into(), Tone::Fault);
        assert_eq!(line.painted(false), "wan is down");
        assert_eq!(line.painted(true), "\x1b[31mwan is down\x1b[0m");
        assert_eq!(
            text(&[line.clone(), Line::from(String::new()), line]),
            "wan is down\n\nwan is down"
        );
    }

    #[test]
    fn keys_do_what_less_does_and_unknown_ones_nothing() {
        for (keys, wanted) in [
            (&b"q"[..], Some(Wish::Quit)),
            (b"\x03", Some(Wish::Quit)),
            (b"\x1b[B", Some(Wish::Scroll(1))),
            (b"k", Some(Wish::Scroll(-1))),
            (b"x", None),
            (b"", None),
        ] {
            assert_eq!(wish(keys), wanted, "{keys:?}");
        }
    }
}
