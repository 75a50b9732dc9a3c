//! Ports of tests that run at the same time are different ones.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use tests::ports::free_ports;

/// Set in the other processes.
const OTHER: &str = "CHANCERY_TEST_OTHER";

#[test]
fn no_other_process_and_no_other_test_gets_the_ports_of_a_test() {
    let ports: [u16; 20] = free_ports().unwrap();
    if std::env::var_os(OTHER).is_some() {
        writeln!(std::io::stderr(), "ports {ports:?}").unwrap();
        // until the first process has had them all
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let mut all: Vec<u16> = ports.into();
    let other = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "no_other_process_and_no_other_test_gets_the_ports_of_a_test", "--nocapture"]);
        command.env(OTHER, "1").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut others = [other(), other(), other()];
    for child in &mut others {
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let numbers = line.trim_start_matches("ports [").trim_end_matches("]\n").split(", ");
        all.extend(numbers.map(|number| number.parse::<u16>().unwrap()));
    }
    all.extend(free_ports::<20>().unwrap());
    for mut child in others {
        // with its standard input it ends
        assert!(child.wait().unwrap().success());
    }
    let different: BTreeSet<u16> = all.iter().copied().collect();
    assert_eq!((all.len(), different.len()), (100, 100));
}

#[test]
fn a_port_can_be_bound_at_once_while_others_start_processes() {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = || {
            while !is_over.load(Ordering::Acquire) {
                assert!(Command::new("true").status().unwrap().success());
            }
        };
        scope.spawn(start);
        scope.spawn(start);
        let bound = (0..500).map(|_| free_ports().and_then(|[port]| Ok(TcpListener::bind(("127.0.0.1", port))?)));
        let bound: Vec<_> = bound.collect();
        is_over.store(true, Ordering::Release);
        let refused: Vec<_> = bound.iter().filter_map(|it| it.as_ref().err()).collect();
        assert!(refused.is_empty(), "{refused:?}");
    });
}
