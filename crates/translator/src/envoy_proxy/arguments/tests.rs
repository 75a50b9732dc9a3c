//! Arguments, list by list.

use proptest::prelude::*;

use super::*;

fn pass(written: &[&str], allowed: &[&str]) -> (Vec<String>, Vec<usize>) {
    let boxed = |all: &[&str]| all.iter().map(|one| Box::from(*one)).collect::<Vec<Box<str>>>();
    let (passed, refused) = passed(&boxed(written), &boxed(allowed));
    (passed.iter().map(ToString::to_string).collect(), refused.into_iter().map(|(index, _)| index).collect())
}

#[test]
fn nothing_is_passed_on_that_is_not_allowed() {
    let (passed, refused) = pass(&["--config-yaml", "{}", "--stats-tag=a:b", "--cpuset-threads"], &[]);
    assert_eq!((passed.len(), refused), (0, vec![0, 2, 3]));
}

#[test]
fn an_allowed_option_is_passed_on_apart_from_its_value() {
    let allowed = ["stats-tag", "--cpuset-threads"];
    let (passed, refused) = pass(&["--stats-tag=a:b", "--stats-tag", "c=d", "--cpuset-threads"], &allowed);
    assert_eq!(passed, ["--stats-tag", "a:b", "--stats-tag", "c=d", "--cpuset-threads"]);
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn an_allowed_option_smuggles_no_other() {
    let allowed = ["stats-tag", "cpuset-threads", "c", "log-level", "config-path", ""];
    for (written, wanted) in [
        (&["--stats-tag", "--config-yaml", "{}"][..], &[0, 1][..]),
        (&["--stats-tag=--config-yaml", "{}"], &[0, 1]),
        (&["--stats-tag="], &[0]),
        (&["--stats-tag"], &[0]),
        (&["--stats-tag", "$(TOKEN)"], &[0]),
        (&["--cpuset-threads=--config-yaml"], &[0]),
        (&["--cpuset-threads", "--", "--config-yaml"], &[1, 2]),
        (&["--stats-ta", "a"], &[0, 1]),
        (&["-c", "/etc/passwd"], &[0]),
        (&["-c/etc/passwd"], &[0]),
        (&["--config-path=/etc/passwd"], &[0]),
        (&["--log-level", "trace"], &[0]),
        (&["x", "", "-", "--", "--ignore_rest", "=", "--="], &[0, 1, 2, 3, 4, 5, 6]),
    ] {
        let (passed, refused) = pass(written, &allowed);
        assert!(passed.iter().all(|one| one == "--cpuset-threads"), "{written:?}: {passed:?}");
        assert_eq!(refused, wanted, "{written:?}");
    }
}

proptest! {
    #[test]
    fn whatever_is_written_only_allowed_options_and_their_values_come_out(
        written in prop::collection::vec("(--)?(config-yaml|stats-tag|cpuset-threads|c|l)?[=-]{0,3}[a-z$(){}]{0,4}", 0..12)
    ) {
        let written: Vec<Box<str>> = written.into_iter().map(String::into_boxed_str).collect();
        let (passed, _) = passed(&written, &["stats-tag".into(), "cpuset-threads".into()]);
        let mut rest = passed.iter().map(|one| &**one);
        while let Some(option) = rest.next() {
            prop_assert!(["--stats-tag", "--cpuset-threads"].contains(&option), "{passed:?}");
            if option == "--stats-tag" {
                let value = rest.next();
                prop_assert!(value.is_some_and(|value| !value.is_empty() && !value.starts_with('-')), "{passed:?}");
            }
        }
    }
}
