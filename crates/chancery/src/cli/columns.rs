//! Columns for people.

use comfy_table::{ContentArrangement, Table, presets};

/// Rows under their headers, each as wide as it needs.
pub(super) fn columns(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(headers);
    table.add_rows(rows);
    table.to_string().lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line).trim_end())).collect()
}
