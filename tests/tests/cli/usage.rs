//! Wrong usage, and output for machines.

use std::path::Path;

use super::{NOWHERE, SHOP, folder, run, told};

#[test]
fn an_unknown_verb_is_wrong_usage() {
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["transalte"], ""), @"
    exit code 2
    --- stderr
    error: unrecognized subcommand 'transalte'

      tip: a similar subcommand exists: 'translate'

    Usage: chancery <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn a_missing_option_is_wrong_usage() {
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["validate"], ""), @"
    exit code 2
    --- stderr
    error: the following required arguments were not provided:
      <PATH>...

    Usage: chancery validate <PATH>...

    For more information, try '--help'.
    ");
}

#[test]
fn run_without_arguments_says_what_it_looked_for() {
    let printed = told(Path::new(NOWHERE), &["run"], "");
    assert!(printed.starts_with("exit code 2\n"), "{printed}");
    for words in ["no folder is named", "kubeconfig", "Pod", "chancery run DIR", "chancery run --kubeconfig FILE"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn validate_prints_problems_for_machines() {
    let place = folder(&[("shop.yaml", SHOP.replace("- port: 80\n", "- port: 81\n").as_bytes())]);
    let printed = |format: &str| -> serde_json::Value {
        let output = run(place.path(), &["validate", "DIR", "-o", format], "");
        assert_eq!(output.status.code(), Some(1));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (json, sarif) = (printed("json"), printed("sarif"));
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(json["problems"].as_array().unwrap().len(), results.len());
    assert!(json["errors"].as_u64() > Some(0) && !results.is_empty(), "{json:#}");
    for result in results {
        assert!(result["locations"][0]["physicalLocation"]["region"]["startLine"].as_u64() > Some(0), "{result:#}");
    }
}

#[test]
fn an_object_is_named_once() {
    for (words, complaint) in [
        (["httproute/shop", "shop"], "takes no further name"),
        (["httproute/", ""], "no name behind the slash"),
        (["problems/shop", ""], "it takes no name"),
        (["mesh/shop", ""], "there is no kind mesh"),
    ] {
        let words: Vec<&str> = ["status"].into_iter().chain(words).filter(|word| !word.is_empty()).collect();
        let printed = told(Path::new(NOWHERE), &words, "");
        assert!(printed.starts_with("exit code 2\n") && printed.contains(complaint), "{printed}");
    }
}
