//! Any texts as the arguments of an author and the options that the operator lists: what reaches Envoy's command line is listed, and never more than
//! an option with one value.

use translator::fuzzing::arguments;

/// Options that Chancery sets itself.
const OWN: [&str; 11] = [
    "-c",
    "--config-path",
    "--disable-hot-restart",
    "--concurrency",
    "--drain-time-s",
    "--drain-strategy",
    "--log-format",
    "--log-format-escaped",
    "-l",
    "--log-level",
    "--component-log-level",
];

/// One input: listed options parted by commas, and arguments, each behind a byte that no text has.
pub fn run(data: &[u8]) {
    let texts: Vec<Box<str>> =
        data.split(|byte| *byte == 0xff).map(|text| String::from_utf8_lossy(text).into()).collect();
    let Some((listed, written)) = texts.split_first() else { return };
    let listed: Vec<Box<str>> = listed.split(',').map(Box::from).collect();
    let passed = arguments(written, &listed);
    let is_written = |text: &str| {
        written
            .iter()
            .any(|one| **one == *text || one.split_once('=').is_some_and(|(name, value)| [name, value].contains(&text)))
    };
    let mut has_value = true;
    for text in &passed {
        assert!(is_written(text), "{text:?} was never written: {written:?}");
        if text.starts_with('-') {
            let name = text.trim_start_matches('-');
            assert!(!OWN.contains(&&**text), "{text:?} is Chancery's own");
            assert!(listed.iter().any(|one| one.trim_start_matches('-') == name), "{text:?} is not listed: {listed:?}");
            has_value = false;
        } else {
            assert!(!has_value, "{text:?} is a second value: {passed:?}");
            assert!(!text.is_empty() && !text.contains("$(") && !text.contains('\0'), "{text:?} is no plain value");
            has_value = true;
        }
    }
    assert!(arguments(written, &[]).is_empty(), "nothing is listed");
}
