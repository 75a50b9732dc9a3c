//! What people read.

use super::*;

#[test]
fn failures_stand_below_the_counts_with_their_errors() {
    let mut read = Results::new("T");
    for line in [
        r#"{"Action":"pass","Test":"T/A"}"#,
        r#"{"Action":"output","OutputType":"error","Test":"T/B","Output":"    x.go:1: got 500\n"}"#,
        r#"{"Action":"fail","Test":"T/B"}"#,
    ] {
        read.read(line);
    }
    read.end(false);
    assert_eq!(results(&read), "1 passed, 1 failed, 0 skipped, 0 not claimed\n\nfailed  B\n        x.go:1: got 500\n");
}

#[test]
fn the_whole_has_its_time_and_the_longest_tests() {
    let mut read = Results::new("T");
    let ended = |name: &str, seconds: f64| format!(r#"{{"Action":"pass","Test":"{name}","Elapsed":{seconds}}}"#);
    for (name, seconds) in [("T/A", 1.5), ("T/B", 3.25), ("T/C", 0.5), ("T/D", 2.0), ("T", 9.6)] {
        read.read(&ended(name, seconds));
    }
    read.end(true);
    let wanted = "4 passed, 0 failed, 0 skipped, 0 not claimed, in 10 s (longest: B 3.2 s, D 2.0 s, A 1.5 s)\n";
    assert_eq!(results(&read), wanted);
}

#[test]
fn a_report_has_a_line_for_each_part_of_a_profile() {
    let report = "
apiVersion: gateway.networking.k8s.io/v1
kind: ConformanceReport
gatewayAPIVersion: v1.7.0
profiles:
- name: GATEWAY-HTTP
  summary: Core tests failed with 2 test failures.
  core:
    result: failure
    statistics: { Failed: 2, Passed: 38, Skipped: 0 }
    failedTests: [A, B]
  extended:
    result: success
    supportedFeatures: [HTTPRouteCORS]
    unsupportedFeatures: [GatewayListenerFilters, HTTPRouteMethodMatching]
    statistics: { Failed: 0, Passed: 7, Skipped: 0 }
- name: GATEWAY-GRPC
  core:
    result: success
    statistics: { Failed: 0, Passed: 9, Skipped: 0 }
";
    assert_eq!(
        profiles(report).unwrap(),
        "\
profile                  result   passed failed skipped  features
GATEWAY-HTTP   core      failure      38      2       0
GATEWAY-HTTP   extended  success       7      0       0    1 of 3
GATEWAY-GRPC   core      success       9      0       0
"
    );
    assert!(profiles("profiles: 3").is_err());
}
