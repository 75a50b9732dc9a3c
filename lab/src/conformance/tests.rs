//! What is asked of the suite, and what its files are called.

use super::*;

fn wanted(test: Option<&str>) -> Wanted {
    Wanted {
        profile: "GATEWAY-HTTP".into(),
        test: test.map(Into::into),
        class: "chancery".into(),
        release: Release { version: NEWEST.into(), channel: Channel::default() },
        publish: false,
        keep: false,
    }
}

#[test]
fn a_run_overwrites_only_what_it_does_again() {
    let release = |version: &str, channel| Release { version: version.into(), channel };
    let experimental = Wanted { release: release(NEWEST, Channel::Experimental), ..wanted(None) };
    let earlier = Wanted { release: release("v1.6.3", Channel::Standard), ..wanted(None) };
    let both = Wanted { profile: "GATEWAY-HTTP,GATEWAY-GRPC".into(), ..wanted(None) };
    let names = [wanted(None), wanted(Some("A")), experimental, earlier, both].map(|wanted| name(&wanted));
    let http = ["", ".some", ".experimental", ".v1.6.3", "+GATEWAY-GRPC"].map(|more| format!("GATEWAY-HTTP{more}"));
    assert_eq!(names, http);
}

#[test]
fn a_narrowed_run_takes_the_tests_that_are_named_and_makes_no_report() {
    let whole = arguments(&wanted(None), Path::new("r.yaml"));
    assert!(whole.contains(&"-test.run=^TestConformance$".to_owned()), "{whole:?}");
    assert!(whole.contains(&"--report-output=r.yaml".to_owned()), "{whole:?}");
    let some = arguments(&wanted(Some("A,B")), Path::new("r.yaml"));
    assert!(some.contains(&"-test.run=^TestConformance$/^(A|B)$".to_owned()), "{some:?}");
    assert!(!some.iter().any(|argument| argument.starts_with("--report-output")), "{some:?}");
}

#[test]
fn no_name_leads_out_of_its_folder_or_matches_more_than_itself() {
    for bad in ["", "A,", "../x", ".*", "A|B", "A B"] {
        assert!(words(bad).is_err(), "{bad}");
    }
    assert_eq!(words("GATEWAY-HTTP,GATEWAY-GRPC").as_deref(), Ok("GATEWAY-HTTP,GATEWAY-GRPC"));
}
