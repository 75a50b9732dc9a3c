//! The metric of the xDS server's refusals, by reason.

use xds::RefusalReason;

use super::counters;

/// Adds the family to an OpenMetrics text, before its end mark.
pub(super) fn add_to(text: &mut String, refusals: &[(RefusalReason, u64)]) {
    let help = "Connections, streams and requests of xDS clients that were refused, ended or slowed down";
    let series = refusals.iter().map(|(reason, count)| (format!("reason=\"{}\"", reason.as_str()), *count));
    counters::add(text, ("chancery_xds_refusals", help), series);
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
