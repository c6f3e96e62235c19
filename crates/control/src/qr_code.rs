//! QR codes (ISO/IEC 18004), for a camera to read off a screen.

use fast_qr::{ECL, QRBuilder, QRCode};

/// The QR code of a text.
pub struct QrCode(QRCode);

/// The text is too long for any QR code.
#[derive(Debug, thiserror::Error)]
#[error("this is too long for a QR code")]
pub struct TooLong;

/// Light modules around it, without which readers don't find it (section 9.1).
const QUIET: usize = 4;

impl QrCode {
    /// A code that is readable with a seventh of it damaged (level M): screens are clean, and a
    /// smaller code can be read from farther away.
    ///
    /// # Errors
    /// [`TooLong`] if the text has 2,332 bytes or more.
    pub fn of(text: &str) -> Result<QrCode, TooLong> {
        QRBuilder::new(text).ecl(ECL::M).build().map(QrCode).map_err(|_| TooLong)
    }

    /// Modules on each side, including the light ones around it.
    #[must_use]
    pub fn side(&self) -> usize {
        self.0.size + 2 * QUIET
    }

    /// Whether the module at this column and row, counted from the light ones around it, is dark.
    #[must_use]
    pub fn is_dark(&self, column: usize, row: usize) -> bool {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < self.0.size);
        match (inside(column), inside(row)) {
            (Some(column), Some(row)) => self.0[row][column].value(),
            _ => false,
        }
    }

    /// The dark modules as the path of an SVG, each 1 × 1.
    #[must_use]
    pub fn svg_path(&self) -> String {
        let mut path = String::new();
        for row in 0..self.side() {
            let mut column = 0;
            while column < self.side() {
                let run = (column..self.side()).take_while(|at| self.is_dark(*at, row)).count();
                if run > 0 {
                    path.push_str(&format!("M{column} {row}h{run}v1h-{run}z"));
                }
                column += run.max(1);
            }
        }
        path
    }

    /// Lines of text, each showing two rows of modules; dark ones are drawn.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |upper: usize| {
            let character = |column| match [upper, upper + 1].map(|row| self.is_dark(column, row)) {
                [true, true] => '█',
                [true, false] => '▀',
                [false, true] => '▄',
                [false, false] => ' ',
            };
            (0..self.side()).map(character).collect()
        };
        (0..self.side()).step_by(2).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a code as a reader does.
    fn read(side: usize, is_dark: impl Fn(usize, usize) -> bool) -> String {
        // Readers expect pictures in which a module has several pixels.
        const PIXELS: usize = 3;
        let mut picture =
            rqrr::PreparedImage::prepare_from_bitmap(side * PIXELS, side * PIXELS, |x, y| {
                is_dark(x / PIXELS, y / PIXELS)
            });
        let found = picture.detect_grids();
        assert_eq!(found.len(), 1, "one code is found");
        found[0].decode().unwrap().1
    }

    /// Texts as long as join lines with a long name and many addresses.
    fn texts() -> Vec<String> {
        [1, 20, 150, 230, 600, 2331]
            .map(|length| "braid-join:Ag".repeat(180)[..length].to_owned())
            .into()
    }

    #[test]
    fn readers_read_what_was_written() {
        for text in texts() {
            let code = QrCode::of(&text).unwrap();
            assert_eq!(read(code.side(), |x, y| code.is_dark(x, y)), text);
        }
        assert!(QrCode::of(&"a".repeat(2332)).is_err());
    }

    #[test]
    fn the_picture_and_the_lines_are_the_code() {
        for text in texts() {
            let code = QrCode::of(&text).unwrap();
            let side = code.side();
            let mut drawn = vec![vec![false; side]; side];
            for run in code.svg_path().split('M').skip(1) {
                let (column, rest) = run.split_once(' ').unwrap();
                let (row, rest) = rest.split_once('h').unwrap();
                let (length, _) = rest.split_once('v').unwrap();
                let [column, row, length] =
                    [column, row, length].map(|text| text.parse::<usize>().unwrap());
                drawn[row][column..column + length].fill(true);
            }
            let lines: Vec<Vec<char>> =
                code.lines().iter().map(|line| line.chars().collect()).collect();
            for (row, drawn) in drawn.iter().enumerate() {
                for (column, drawn) in drawn.iter().enumerate() {
                    assert_eq!(*drawn, code.is_dark(column, row));
                    let shown = match (lines[row / 2][column], row % 2) {
                        ('█', _) | ('▀', 0) | ('▄', 1) => true,
                        (' ' | '▀' | '▄', _) => false,
                        (other, _) => panic!("{other:?}"),
                    };
                    assert_eq!(shown, *drawn);
                }
            }
        }
    }
}
