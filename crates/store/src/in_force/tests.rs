//! Tests of what is in force.

use api::{Kind, ObjectKey};

use super::{AllInForce, InForce};
use crate::batch::{Origin, Source};

fn key(number: u32) -> ObjectKey {
    ObjectKey::of(Kind::Service, "default", &format!("service-{number}"))
}

fn at(file: u32, line: u32, source: Source) -> InForce {
    InForce { origin: Origin { file: format!("{file}.yaml").into(), line }, source }
}

#[test]
fn each_object_gives_back_where_it_comes_from_and_no_place_outlives_its_objects() {
    let mut all = AllInForce::default();
    let mut wanted = std::collections::BTreeMap::new();
    for round in 0..4 {
        for number in 0..30 {
            let source = if number % 2 == 0 { Source::File } else { Source::Kubernetes };
            let entry = at((number + round) / 7, number * round, source);
            all.set(key(number), entry.clone());
            wanted.insert(number, entry);
        }
        for number in (round..30).step_by(5) {
            all.remove(&key(number));
            wanted.remove(&number);
        }
        for number in 0..30 {
            assert_eq!(all.get(&key(number)), wanted.get(&number).cloned());
        }
        assert_eq!(all.len(), wanted.len());
        let places: std::collections::BTreeSet<_> =
            wanted.values().map(|entry| (entry.origin.file.clone(), entry.source)).collect();
        assert_eq!(all.places.find.len(), places.len());
        assert_eq!(all.places.all.len() - all.places.free.len(), places.len());
    }
    (0..30).for_each(|number| all.remove(&key(number)));
    assert_eq!((all.len(), all.places.find.len()), (0, 0));
    assert_eq!(all.places.all.len(), all.places.free.len());
}
