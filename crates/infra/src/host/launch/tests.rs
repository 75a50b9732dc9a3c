//! Arguments, and what makes two starts the same.

use std::sync::Arc;

use ir::infra::OWN_OPTIONS;

use super::*;
use crate::host::tests::stage::{gateway, options};

/// Launches of one Gateway in one state folder.
struct Launches(tempfile::TempDir);

impl Launches {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(&self, change: impl FnOnce(&mut Infra, &mut HostOptions, &mut Envoy)) -> Launch {
        let mut options = options(self.0.path());
        let mut infra = gateway("edge", &[80]);
        let mut envoy = Envoy { path: "/bin/envoy".into(), version: "1.40.0".to_owned() };
        change(&mut infra, &mut options, &mut envoy);
        options.layout.prepare(&infra.fleet).unwrap();
        Launch::new(&infra, &envoy, "{}".to_owned(), &options)
    }
}

#[test]
fn what_a_running_envoy_cannot_change_makes_another_start_and_the_rest_does_not() {
    let launches = Launches::new();
    let launch = |change: fn(&mut Infra, &mut HostOptions, &mut Envoy)| launches.with(change);
    let plain = launch(|_, _, _| {});
    let same = |other: Launch| other.identity == plain.identity;
    assert!(same(launch(|_, _, _| {})));
    assert!(same(launch(|infra, _, _| infra.options.log_level = Some("debug".into()))));
    assert!(same(launch(|infra, _, _| infra.ports.push(443))));
    assert!(same(launch(|_, options, _| options.drain *= 2)));
    assert!(!same(launch(|infra, _, _| infra.options.concurrency = Some(3))));
    assert!(!same(launch(|infra, _, _| infra.options.extra_args = vec![Arc::from("--cpuset-threads")])));
    assert!(!same(launch(|_, options, _| options.listener_drain *= 2)));
    assert!(!same(launch(|_, _, envoy| envoy.version = "1.40.1".to_owned())));
}

#[test]
fn components_that_repeat_configuration_are_quiet_unless_the_user_says_otherwise() {
    let components = |asked: &[(&str, &str)]| {
        let asked = asked.iter().map(|(name, level)| (Arc::from(*name), Arc::from(*level))).collect();
        Launches::new().with(|infra, _, _| infra.options.component_log_levels = asked).component_levels()
    };
    assert_eq!(components(&[]), "config:error");
    assert_eq!(components(&[("upstream", "debug")]), "config:error,upstream:debug");
    assert_eq!(components(&[("config", "trace")]), "config:trace");
}

#[test]
fn every_option_of_a_start_is_one_that_users_are_told_is_taken() {
    let launch = Launches::new().with(|_, _, _| {});
    let mut args = launch.args.iter();
    while let Some(option) = args.next() {
        let own = OWN_OPTIONS.iter().find(|(name, _)| name == option);
        let (_, has_value) = own.unwrap_or_else(|| panic!("{option} is not among them"));
        assert!(!has_value || args.next().is_some_and(|value| !value.starts_with("--")), "{option} lacks its value");
    }
}
