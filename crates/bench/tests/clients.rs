//! The scripted clients of the benchmarks are those that Chancery serves.

use std::process::Command;

#[test]
fn clients_of_the_benchmarks_get_what_chancery_serves() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).arg("clients").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
