//! Columns for people.

use api::problem::printable;
use comfy_table::{ContentArrangement, Table, presets};

/// Rows under their headers, each as wide as it needs. A cell may be a text of others: it has no line ends and no codes of terminals.
pub(super) fn columns(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(headers);
    table.add_rows(
        rows.into_iter().map(|row| row.into_iter().map(|cell| printable(&cell).into_owned()).collect::<Vec<_>>()),
    );
    table.to_string().lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line).trim_end())).collect()
}

#[cfg(test)]
mod tests;
