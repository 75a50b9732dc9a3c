//! What is believed of what a server says that it has.

use std::time::Duration;

use api::Kind;
use tokio::time::Instant;

use super::{Known, Served};
use crate::kubernetes::Pace;

#[test]
fn that_there_are_no_gateways_is_not_believed_at_once_even_at_a_start() {
    let (pace, start) = (Pace::default(), Instant::now());
    let without: Served = [(Kind::HttpRoute, "v1")].into();
    let all: Served = [(Kind::Gateway, "v1"), (Kind::HttpRoute, "v1")].into();
    let mut known = Known::default();
    assert!(!known.take(without.clone(), start, &pace) && known.served.is_none());
    let later = start + pace.missing;
    assert!(!known.take(without.clone(), later - Duration::from_millis(1), &pace) && known.served.is_none());
    assert!(known.take(without.clone(), later, &pace) && known.served == Some(without));

    let mut known = Known::default();
    assert!(known.take(all.clone(), start, &pace) && known.served == Some(all));
}
