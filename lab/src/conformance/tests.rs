//! What is asked of the suite, and what its files are called.

use super::*;

fn wanted(test: Option<&str>) -> Wanted {
    Wanted {
        profile: "GATEWAY-HTTP".into(),
        test: test.map(Into::into),
        class: "chancery".into(),
        channel: Channel::default(),
        keep: false,
    }
}

#[test]
fn a_run_overwrites_only_what_it_does_again() {
    let experimental = Wanted { channel: Channel::Experimental, ..wanted(None) };
    let both = Wanted { profile: "GATEWAY-HTTP,GATEWAY-GRPC".into(), ..wanted(None) };
    let names = [wanted(None), wanted(Some("A")), experimental, both].map(|wanted| name(&wanted));
    assert_eq!(names, ["GATEWAY-HTTP", "GATEWAY-HTTP.some", "GATEWAY-HTTP.experimental", "GATEWAY-HTTP+GATEWAY-GRPC"]);
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
