//! The metric of what the xDS server refuses its clients, by reason.

use std::fmt::Write as _;

use xds::RefusalReason;

/// Adds the family to an OpenMetrics text, before its end mark.
pub(super) fn add_to(text: &mut String, refusals: &[(RefusalReason, u64)]) {
    let end = "# EOF\n";
    if text.ends_with(end) {
        text.truncate(text.len() - end.len());
    }
    let name = "chancery_xds_refusals";
    let help = "Connections, streams and requests of xDS clients that were refused, ended or slowed down";
    let _infallible = write!(text, "# HELP {name} {help}.\n# TYPE {name} counter\n");
    for (reason, count) in refusals {
        let _infallible = writeln!(text, "{name}_total{{reason=\"{}\"}} {count}", reason.as_str());
    }
    text.push_str(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_series_before_the_end_mark() {
        let mut text = "# TYPE chancery_a counter\nchancery_a_total 1\n# EOF\n".to_owned();
        add_to(&mut text, &[(RefusalReason::Share, 3), (RefusalReason::Frames, 0)]);
        let series = "chancery_xds_refusals_total{reason=\"share\"} 3\nchancery_xds_refusals_total{reason=\"frames\"} 0\n# EOF\n";
        assert!(text.ends_with(series) && text.matches("# EOF").count() == 1, "{text}");
    }
}
