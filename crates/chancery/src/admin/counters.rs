//! Adds a family of counters to an OpenMetrics text.

/// The last line of an OpenMetrics text.
const END: &str = "# EOF\n";

/// Adds a family before the end mark: its name and help text, and the labels and value of each series.
pub(super) fn add(text: &mut String, (name, help): (&str, &str), series: impl Iterator<Item = (String, u64)>) {
    if text.ends_with(END) {
        text.truncate(text.len() - END.len());
    }
    text.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} counter\n"));
    for (labels, count) in series {
        text.push_str(&format!("{name}_total{{{labels}}} {count}\n"));
    }
    text.push_str(END);
}
