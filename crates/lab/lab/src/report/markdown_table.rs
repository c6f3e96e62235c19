/// The first row is the heading. Columns are padded, to be readable in a terminal, too.
pub(super) fn render(cells: &[Vec<String>]) -> String {
    let columns = cells.first().map_or(0, Vec::len);
    let width = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        text.push('|');
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Names are left-aligned, figures right-aligned.
            let padded = if column < 2 {
                format!(" {cell:<width$} |")
            } else {
                format!(" {cell:>width$} |")
            };
            text.push_str(&padded);
        }
        text.push('\n');
        if number == 0 {
            text.push('|');
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width + 1);
                text.push_str(&if column < 2 {
                    format!(":{dashes}|")
                } else {
                    format!("{dashes}:|")
                });
            }
            text.push('\n');
        }
    }
    text
}
