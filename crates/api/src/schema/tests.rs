//! Tests of schemas.

use proptest::prelude::*;

use super::pattern::QUICK;
use super::{Pattern, Schema, load, nearest};
use crate::kind::Kind;

fn every(schema: &Schema, see: &mut dyn FnMut(&Schema)) {
    see(schema);
    let inner = schema.properties.iter().map(|property| &property.schema);
    let inner = inner.chain(schema.values.as_deref()).chain(schema.items.as_deref()).chain(schema.not.as_deref());
    inner.chain(&schema.one_of).chain(&schema.any_of).for_each(|schema| every(schema, see));
}

#[test]
fn every_schema_loads_and_every_rule_and_pattern_compiles() {
    for kind in Kind::ALL {
        let schema = load::try_load(*kind).expect("a schema loads");
        every(&schema, &mut |schema| {
            let compiles = schema.pattern.as_ref().is_none_or(|pattern| pattern.regex().is_some());
            assert!(compiles, "{kind}: {:?}", schema.pattern);
        });
    }
}

#[test]
fn gateway_api_has_its_rules() {
    for (kind, least) in [(Kind::HttpRoute, 60), (Kind::Gateway, 15)] {
        let mut rules = 0;
        every(Schema::of(kind), &mut |schema| rules += schema.rules.len());
        assert!(rules >= least, "{kind} has {rules} rules");
    }
}

#[test]
fn every_unit_is_marked() {
    for (kind, path, _) in super::UNITS {
        let mut marked = 0;
        every(Schema::of(*kind), &mut |schema| marked += usize::from(schema.unit.is_some()));
        let wanted = super::UNITS.iter().filter(|(of, ..)| of == kind).count();
        assert_eq!(marked, wanted, "{kind} {path:?}");
    }
}

#[test]
fn the_nearest_word_is_found_where_one_is_near() {
    let words = ["matches", "filters", "backendRefs", "name", "names", "timeouts"];
    for (typed, meant) in [
        ("match", Some("matches")),
        ("backendrefs", Some("backendRefs")),
        ("backendRef", Some("backendRefs")),
        ("nmae", Some("name")),
        ("fliters", Some("filters")),
        ("name", Some("name")),
        ("retry", None),
        ("", None),
    ] {
        assert_eq!(nearest(typed, words), meant, "{typed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quick_patterns_accept_what_their_expression_accepts(text in "[a-bA-B0*%./~é\n-]{0,8}|([0-9]{0,6}(h|m|s|ms|d)){0,5}") {
        for (pattern, quick, _) in QUICK {
            let regex = Pattern::new(pattern);
            let expected = regex.regex().expect("compiles").is_match(&text);
            prop_assert_eq!(quick(&text), expected, "{} on {:?}", pattern, text);
        }
    }
}
