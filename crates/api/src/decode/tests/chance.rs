//! Decoding of what chance makes: nothing panics, and what passes its schema fits its type.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Decoded, all};
use crate::kind::Kind;
use crate::schema::Schema;
use crate::schema::chance::{Dice, made};

/// One object of every kind in the two styles that people write.
const SEEDS: &[&str] = &[
    "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: r\n  labels: {a: b}\nspec:\n  parentRefs:\n  - name: g\n  hostnames: [\"a.b\"]\n  rules:\n  - matches:\n    - path: {type: Exact, value: /a}\n      headers: [{name: h, value: v}]\n    filters:\n    - type: URLRewrite\n      urlRewrite: {hostname: c.d}\n    backendRefs:\n    - name: s\n      port: 80\n    timeouts: {request: 1s}\n",
    "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  gatewayClassName: c\n  listeners:\n  - name: l\n    port: 443\n    protocol: HTTPS\n    tls:\n      certificateRefs:\n      - name: s\n",
    "apiVersion: v1\nkind: Secret\nmetadata: &m {name: s}\ndata:\n  tls.crt: Zm9v\nstringData:\n  tls.key: |\n    line\n    line\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: 'b'}\n",
    "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: e\naddressType: IPv4\nports:\n- name: http\n  port: 80\nendpoints:\n- addresses: [\"10.0.0.1\"]\n  conditions: {ready: true}\n",
    "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"s\"}, \"spec\": {\"ports\": [{\"port\": 80}]}}]}\n",
];

/// Nothing that the types refuse although the schema let it pass.
fn types_agree(decoded: &Decoded) -> Result<(), String> {
    match decoded.problems.iter().find(|problem| problem.text.contains("cannot be read")) {
        Some(problem) => Err(problem.to_string()),
        None => Ok(()),
    }
}

#[test]
fn what_passes_its_schema_fits_its_type() {
    for kind in Kind::ALL {
        let mut kept = 0;
        for number in 0..400_u64 {
            let mut dice = Dice::new(number + 7);
            // A quarter of the objects have no wrong type at all.
            dice.wrong = [0, 4, 20, 60][usize::try_from(number % 4).expect("small")];
            let mut object = made(("", Schema::of(*kind)), &mut dice, 0);
            object["apiVersion"] = kind.api_version().into();
            object["kind"] = kind.name().into();
            object["metadata"] = serde_json::json!({ "name": "n" });
            let decoded = all(&object.to_string());
            assert_eq!(types_agree(&decoded), Ok(()), "{object}");
            kept += decoded.objects.len();
        }
        assert!(kept > 0, "not one {kind} of 400 was kept");
    }
}

#[test]
fn five_megabytes_in_one_document_are_read() {
    let port = |number: u32| format!("  - {{name: p{number}, port: {}, nodePort: {number}}}\n", number % 60_000 + 1);
    let ports: String = (0..100_000).map(port).collect();
    let text = format!("apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec:\n  ports:\n{ports}");
    assert!(text.len() > 4_000_000);
    let Decoded { objects, problems } = all(&text);
    // There are 60,000 different ports; the others are left out, and a hundred of them are told.
    let Some(crate::Object::Service(service)) = objects.first() else { panic!("a Service") };
    assert_eq!((service.spec.ports.len(), problems.len()), (60_000, 101));
}

#[test]
fn ten_thousand_objects_in_one_list_are_read() {
    let items: String = (0..10_000)
        .map(|number| format!("- apiVersion: v1\n  kind: Namespace\n  metadata:\n    name: n{number}\n"))
        .collect();
    let decoded = all(&format!("apiVersion: v1\nkind: List\nitems:\n{items}"));
    assert_eq!((decoded.objects.len(), decoded.problems.len()), (10_000, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_text_never_panics_and_types_agree(
        seed in 0..SEEDS.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..12, "[-:{}\\[\\]&*|>'\"%@# \t\na-z0-9é]{0,3}"), 1..6),
    ) {
        let mut letters: Vec<char> = SEEDS[seed].chars().collect();
        for (at, removed, text) in edits {
            let at = at.index(letters.len() + 1);
            letters.splice(at..(at + removed).min(letters.len()), text.chars());
        }
        let text: String = letters.into_iter().collect();
        prop_assert_eq!(types_agree(&all(&text)), Ok(()), "{}", text);
    }

    #[test]
    fn every_problem_has_a_place_in_the_text(
        seed in 0..SEEDS.len(),
        at in any::<prop::sample::Index>(),
        text in "[a-z:{ -]{1,4}",
    ) {
        let mut letters: Vec<char> = SEEDS[seed].chars().collect();
        let at = at.index(letters.len());
        letters.splice(at..at, text.chars());
        let text: String = letters.into_iter().collect();
        let file: Arc<str> = "a.yaml".into();
        for problem in all(&text).problems {
            let place = problem.place.clone().expect("a place");
            prop_assert_eq!(&place.file, &file);
            let line = text.split('\n').nth(place.line as usize - 1);
            let fits = line.is_some_and(|line| place.column as usize <= line.chars().count() + 1);
            prop_assert!(fits, "{} in {}", problem, text);
        }
    }
}
