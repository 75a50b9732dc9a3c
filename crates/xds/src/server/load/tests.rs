//! What fleets have apart.

use super::*;

#[test]
fn nobody_waits_while_a_report_of_another_fleet_is_read() {
    let desk = Desk::default();
    let (one, other) = (desk.of(&"one".into()), desk.of(&"other".into()));
    let reading = locked(&one);
    assert!(other.try_lock().is_ok_and(|mut loads| loads.open(Arc::default(), Duration::ZERO).is_ok()));
    drop(reading);
    assert!(Arc::ptr_eq(&one, &desk.of(&"one".into())), "clients of one fleet are added up");
}

#[test]
fn a_fleet_of_which_nobody_reports_any_more_is_forgotten() {
    let desk = Desk::default();
    let kept = desk.of(&"kept".into());
    let reports = desk.of(&"reports".into());
    let id = locked(&reports).open(Arc::default(), Duration::ZERO).unwrap();
    drop(reports);
    desk.sweep();
    assert_eq!(desk.all().len(), 2);
    drop(kept);
    locked(&desk.of(&"reports".into())).close(id);
    desk.sweep();
    assert!(desk.all().is_empty());
}
