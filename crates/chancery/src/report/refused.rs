//! Refusals of what authors of objects ask for, counted by reason. The reasons are a fixed list, and no text of an author is a label.

use std::fmt::Write as _;

use super::Findings;

/// Reasons, each with words of the problems that have it: the first reason with words in a problem counts. A test goes through them with an object each.
const REASONS: [(&str, &[&str]); 11] = [
    ("own_address", &["where Chancery listens", "Chancery listens at", "may be the proxy's own", "loopback address"]),
    ("link_local", &["--allow-link-local"]),
    ("raw_power", &["--raw-resources "]),
    (
        "socket",
        &[
            "--backend-sockets",
            "an absolute path without `.` and `..`",
            "belongs to Chancery and its proxies",
            "is below /proc, /sys or /dev",
            "is not a path of a socket",
        ],
    ),
    ("argument", &["not passed on", "neither is passed on", "is set by Chancery already"]),
    ("service_account", &["provider.kubernetes.deploy.allowedServiceAccounts"]),
    ("pod_field", &["provider.kubernetes.deploy.allowedFields"]),
    ("policy", &["--unsupported-policies=allow"]),
    ("link", &["--follow-links"]),
    ("special_file", &["not read: nothing below /proc, /sys and /dev is", "not a regular file"]),
    ("large_file", &["; split it into several files"]),
];

const NAME: &str = "chancery_refusals";

/// Adds the numbers to a text of OpenMetrics.
pub(crate) fn write(findings: &Findings, text: &mut String) {
    let mut counts = [0_usize; REASONS.len()];
    for words in findings.texts() {
        let has = |(_, known): &(&str, &[&str])| known.iter().any(|known| words.contains(known));
        if let Some(count) = REASONS.iter().position(has).and_then(|at| counts.get_mut(at)) {
            *count += 1;
        }
    }
    let _infallible = write!(
        text,
        "# HELP {NAME} Problems that refuse what an author of objects asks for, by reason.\n# TYPE {NAME} gauge\n"
    );
    for ((reason, _), count) in REASONS.iter().zip(counts) {
        let _infallible = writeln!(text, "{NAME}{{reason=\"{reason}\"}} {count}");
    }
}
