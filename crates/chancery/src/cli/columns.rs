//! Columns for users, which fit the terminal that shows them.

use std::io::IsTerminal as _;

use api::problem::printable;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Blanks between two columns.
const GAP: usize = 2;

/// The least width to which a cell is cut: names of this length differ as a rule.
const LEAST: usize = 12;

/// The header of the column that has a colour: what becomes of the object of a row.
const STATE: &str = "STATE";

/// The screen of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Screen {
    /// Columns of the terminal; any number without.
    pub(super) width: Option<usize>,
    /// States have colours.
    pub(super) colours: bool,
}

impl Screen {
    /// Returns that of standard output: nothing is cut and nothing coloured where it is no terminal.
    pub(super) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::default();
        }
        let set = std::env::var_os("COLUMNS").and_then(|text| text.to_str()?.parse::<usize>().ok());
        let size = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let width = set.or_else(size).filter(|width| *width > 0);
        Self { width, colours: super::colours() }
    }

    /// The same without an end: cells are not cut.
    pub(super) fn uncut(self) -> Self {
        Self { width: None, ..self }
    }
}

/// Rows under their headers, each as wide as it needs. A cell may be a text of others: it has no line ends and no codes of terminals.
pub(super) fn columns(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    columns_on(Screen::default(), headers, rows)
}

/// The same for a screen. Where it is too narrow the last column is cut, and then the widest of the others.
pub(super) fn columns_on(screen: Screen, headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| printable(cell).into_owned()).collect()).collect();
    let mut widths: Vec<usize> = headers.iter().map(|header| header.width()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(most) = screen.width {
        fit(&mut widths, most);
    }
    let coloured = headers.iter().position(|header| *header == STATE).filter(|_| screen.colours);
    let header: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
    let mut text = line(&header, &widths, None);
    rows.iter().for_each(|row| text.push_str(&line(row, &widths, coloured)));
    text
}

/// Takes from the last column first, and then from the widest one.
fn fit(widths: &mut [usize], most: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    let room = most.saturating_sub(gaps);
    let excess = |widths: &[usize]| widths.iter().sum::<usize>().saturating_sub(room);
    let over = excess(widths);
    if let Some(last) = widths.last_mut() {
        *last -= over.min(last.saturating_sub(LEAST));
    }
    // Each round takes one from a column that has more than the least: no more rounds than there is excess.
    for _ in 0..excess(widths) {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > LEAST) else { return };
        *widest -= 1;
    }
}

fn line(cells: &[String], widths: &[usize], coloured: Option<usize>) -> String {
    let mut text = String::new();
    let mut blanks = 0;
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let shown = cut(cell, *width);
        // Blanks go before what stands behind them: no line ends with some.
        if !shown.is_empty() {
            text.push_str(&" ".repeat(blanks));
            blanks = 0;
            match coloured.filter(|of| *of == at).and_then(|_| colour(cell)) {
                Some(paint) => text.push_str(&format!("{paint}{shown}\x1b[0m")),
                None => text.push_str(&shown),
            }
        }
        blanks += width.saturating_sub(shown.width()) + GAP;
    }
    text.push('\n');
    text
}

/// At most this wide, with an ellipsis in place of what is left out.
fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut used = 1;
    let fits = |letter: &char| {
        used += letter.width().unwrap_or_default();
        used <= width
    };
    cell.chars().take_while(fits).chain(['…']).collect()
}

/// Green for what is well, red for what is not, yellow between.
fn colour(state: &str) -> Option<&'static str> {
    let state = state.strip_prefix("earlier version: ").map_or(state, |_| "earlier");
    match state {
        "ok" | "active" => Some("\x1b[32m"),
        "" | "-" | "static" => None,
        bad if ["not ", "refused"].iter().any(|word| bad.contains(word)) => Some("\x1b[31m"),
        _ => Some("\x1b[33m"),
    }
}

#[cfg(test)]
mod tests;
