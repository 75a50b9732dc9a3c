//! `$(NAME)` in commands, arguments and values of environment variables.

/// Puts values in; a name without one stays as it is written, and `$$` is a `$` that begins nothing.
pub(crate) fn expand<'a>(text: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        match rest.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            Some((name, after)) => {
                match value(name) {
                    Some(value) => out.push_str(value),
                    None => out.extend(["$(", name, ")"]),
                }
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out + rest
}

#[cfg(test)]
mod tests;
