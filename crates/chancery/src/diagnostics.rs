//! Problems as a compiler prints them: severity, text, place, and the line with a caret below the column.

use api::problem::printable;
use api::{Problem, Severity};

/// Several lines, the last with a line feed.
pub(crate) fn text(problem: &Problem) -> String {
    render(problem, false)
}

/// The same, in colours where `colours` is true.
pub(crate) fn render(problem: &Problem, colours: bool) -> String {
    let (paint, bold, off) = match (colours, problem.severity) {
        (false, _) => ("", "", ""),
        (true, Severity::Error) => ("\x1b[1;31m", "\x1b[1m", "\x1b[0m"),
        (true, Severity::Warning) => ("\x1b[1;33m", "\x1b[1m", "\x1b[0m"),
        (true, Severity::Note) => ("\x1b[1;36m", "\x1b[1m", "\x1b[0m"),
    };
    let mut out = format!("{paint}{}{off}{bold}: {}{off}\n", problem.severity, printable(&problem.text));
    if let Some(place) = &problem.place {
        out.push_str(&format!("  --> {}\n", printable(&place.to_string())));
    }
    let path = if problem.path.is_empty() { String::new() } else { format!(", {}", problem.path) };
    if let Some(object) = &problem.object {
        out.push_str(&format!("   in {}\n", printable(&format!("{object}{path}"))));
    }
    if let (Some(place), Some(snippet)) = (&problem.place, &problem.snippet) {
        let number = place.line.to_string();
        let margin = " ".repeat(number.len());
        let before: String = snippet.chars().take(place.column.saturating_sub(1) as usize).map(blank).collect();
        out.push_str(&format!("{margin} |\n{number} | {}\n{margin} | {before}{paint}^{off}\n", printable(snippet)));
    }
    out
}

/// Tabs stay tabs, so that the caret stands where the line's character stands.
fn blank(character: char) -> char {
    if character == '\t' { '\t' } else { ' ' }
}
