//! Arguments for Envoy as users write them: which of them reach its command line.

use std::sync::Arc;

use ir::infra::OWN_OPTIONS;

#[cfg(test)]
mod tests;

/// Options of Envoy 1.40 (`envoy --help`) that Chancery does not set itself, and true if a value follows. Names are never shortened, and a value
/// is an argument of its own (measured).
const OPTIONS: [(&str, bool); 22] = [
    ("--admin-address-path", true),
    ("--allow-unknown-fields", false),
    ("--allow-unknown-static-fields", false),
    ("--config-yaml", true),
    ("--cpuset-threads", false),
    ("--disable-extensions", true),
    ("--enable-core-dump", false),
    ("--enable-fine-grain-logging", false),
    ("--enable-mutex-tracing", false),
    ("--file-flush-interval-msec", true),
    ("--file-flush-min-size-kb", true),
    ("--ignore-unknown-dynamic-fields", false),
    ("--local-address-ip-version", true),
    ("--log-path", true),
    ("--log-stacktrace-single-entry", false),
    ("--mode", true),
    ("--reject-unknown-dynamic-fields", false),
    ("--service-cluster", true),
    ("--service-node", true),
    ("--service-zone", true),
    ("--skip-deprecated-logs", false),
    ("--stats-tag", true),
];

/// Characters of an argument that a message repeats.
const SHOWN: usize = 60;

/// Returns the arguments that are passed on, each option apart from its value, and of the others the position and why they are not.
pub(crate) fn passed(written: &[Box<str>], allowed: &[Box<str>]) -> (Vec<Arc<str>>, Vec<(usize, String)>) {
    let (mut passed, mut refused) = (Vec::new(), Vec::new());
    let mut rest = written.iter().map(|argument| &**argument).enumerate().peekable();
    while let Some((index, argument)) = rest.next() {
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        let is = |(option, _): &&(&str, bool)| *option == name;
        let own = OWN_OPTIONS.iter().find(is);
        let known = own.or_else(|| OPTIONS.iter().find(is));
        // Only what the option takes: another option is never a value.
        let takes_next = inline.is_none() && known.is_some_and(|(_, has_value)| *has_value);
        let next = rest.next_if(|(_, next)| takes_next && !next.starts_with('-')).map(|(_, value)| value);
        match (known, inline.or(next)) {
            _ if own.is_some() => refused.push((index, format!("{name} is set by Chancery already, ignored"))),
            (None, _) => {
                refused.push((index, format!("{} is no option of Envoy, it is not passed on", shown(argument))))
            }
            _ if !is_allowed(name, allowed) => refused.push((index, not_allowed(name))),
            (Some((_, false)), None) => passed.push(Arc::from(name)),
            (Some((_, false)), Some(_)) => refused.push((index, format!("{name} takes no value, it is not passed on"))),
            (Some((_, true)), Some(value)) if is_plain(value) => passed.extend([Arc::from(name), Arc::from(value)]),
            (Some((_, true)), Some(value)) => {
                refused.push((index, format!("{} is no value for {name}, neither is passed on", shown(value))));
            }
            (Some((_, true)), None) => refused.push((index, format!("{name} has no value, it is not passed on"))),
        }
    }
    (passed, refused)
}

/// A value that can be nothing else: no option, and nothing that a kubelet would replace (`$(NAME)` in the arguments of a container).
fn is_plain(value: &str) -> bool {
    !value.is_empty() && !value.starts_with('-') && !value.contains("$(") && !value.contains('\0')
}

fn is_allowed(name: &str, allowed: &[Box<str>]) -> bool {
    allowed.iter().any(|option| option.trim_start_matches('-') == name.trim_start_matches('-'))
}

fn not_allowed(name: &str) -> String {
    let plain = name.trim_start_matches('-');
    format!(
        "{name} is not passed on: the operator allows it with enableExtraArgs: true and {plain} among extraArgs, both in extensionApis of the static \
         configuration"
    )
}

fn shown(argument: &str) -> String {
    format!("{:?}", argument.chars().take(SHOWN).collect::<String>())
}
