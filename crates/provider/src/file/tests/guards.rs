//! Policies that guard and have something wrong with them: an earlier form stays, and without one what can be read counts.

use api::{Object, PolicyAttachment};

use super::*;
use crate::file::catalog::Catalog;
use crate::file::document::parse;
use crate::file::spot::Spot;

const KIND: &str = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\n";

/// A policy with this metadata for a route.
fn policy(metadata: &str, route: &str) -> String {
    format!(
        "{KIND}metadata: {metadata}\nspec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {route}}}], jwt: {{}}}}\n"
    )
}

fn spot(file: &str) -> Arc<Spot> {
    Spot::root(u32::from(file.as_bytes()[0]), file)
}

/// The policies of a folder, as they count.
#[derive(Default)]
struct Policies {
    catalog: Catalog,
    objects: BTreeMap<ObjectKey, Object>,
    problems: BTreeMap<String, String>,
}

impl Policies {
    fn of(files: &[(&str, &str)]) -> Self {
        let mut policies = Self::default();
        files.iter().for_each(|(file, text)| policies.write(file, text));
        policies
    }

    fn write(&mut self, file: &str, text: &str) {
        let spot = spot(file);
        let old = self.catalog.documents(&spot).to_vec();
        let parsed = parse(&spot.display, text, &old, &|| true).unwrap();
        self.catalog.put(&spot, parsed);
        self.commit();
    }

    fn remove(&mut self, file: &str) {
        self.catalog.remove(&spot(file));
        self.commit();
    }

    fn commit(&mut self) {
        for change in self.catalog.commit() {
            match change {
                Change::Apply(object, _) => drop(self.objects.insert(object.key().clone(), object)),
                Change::Delete(key) => drop(self.objects.remove(&key)),
                Change::Problems { origin, problems } => {
                    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    self.problems.insert(origin.to_string(), lines.join("\n"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn all(&self) -> Vec<PolicyAttachment> {
        self.objects.values().filter_map(Object::attachment).collect()
    }

    /// The routes that are closed, and `*` for the whole namespace.
    fn closed(&self) -> Vec<String> {
        let names = |found: &PolicyAttachment| {
            let named = found.targets().chain(&found.further).map(|target| target.name.to_string());
            named.chain(found.for_all.then(|| "*".to_owned())).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = self.all().iter().flat_map(names).collect();
        all.sort();
        all
    }

    fn says(&self, words: &str) -> bool {
        self.problems.values().any(|lines| lines.contains(words))
    }
}

/// Forms of the policy `p` for the route `one` that cannot be used, and what they close where nothing was before.
fn broken() -> Vec<(String, &'static str)> {
    let good = policy("{name: p}", "one");
    let list = list_of(&good);
    vec![
        (policy("{name: p, labels: {a: 1}}", "one"), "one"),
        (policy("{name: P}", "one"), "one"),
        (policy("{}", "one"), "one"),
        (good.replace("/v1alpha1", "/v1"), "one"),
        (good.replace("SecurityPolicy", "securitypolicy"), "one"),
        (good.replace("gateway.envoyproxy", "Gateway.envoyproxy"), "one"),
        (good.replace("targetRefs", "targetrefs"), "one"),
        (good.replace("kind: HTTPRoute, ", ""), "one"),
        (good.replace("[{group: gateway.networking.k8s.io, kind: HTTPRoute, name: one}]", "x"), "*"),
        (good.replace("jwt: {}", "jwt: {}, jwt: {}"), "one"),
        (good.replace("jwt: {}", "jwt: *none"), "one"),
        (format!("{KIND}metadata: {{name: p}}\nspec: {{jwt: {{}}\n"), "*"),
        (list.replace("/v1alpha1", "/v1"), "one"),
        (list.replace("PolicyList", "Policylist"), "one"),
        (list.replace("items:\n- ", "items:\n  "), "*"),
    ]
}

/// A list of one policy.
fn list_of(good: &str) -> String {
    format!("{}items:\n- {}", KIND.replace("Policy", "PolicyList"), good.trim_end().replace('\n', "\n  "))
}

#[test]
fn policies_in_a_list_of_their_kind_close_what_they_are_for() {
    let policies = Policies::of(&[("a.yaml", &list_of(&policy("{name: p}", "one")))]);
    assert_eq!(policies.closed(), ["one"]);
    assert!(
        policies.all().iter().all(|found| found.fault.is_none()) && !policies.says("error: "),
        "{:?}",
        policies.problems
    );
}

#[test]
fn broken_policies_close_what_they_may_be_for() {
    for (text, closed) in broken() {
        let policies = Policies::of(&[("a.yaml", &text)]);
        assert_eq!(policies.closed(), [closed], "{text}");
        assert!(policies.all().iter().all(|found| found.fault.is_some() || !found.target_faults.is_empty()), "{text}");
        assert!(policies.says("error: ") && !policies.says("stays in force"), "{text}: {:?}", policies.problems);
    }
}

#[test]
fn a_policy_that_breaks_keeps_its_earlier_form() {
    for (text, _) in broken() {
        let mut policies = Policies::of(&[("a.yaml", &policy("{name: p}", "one"))]);
        for text in [text.clone(), format!("# again\n{text}")] {
            policies.write("a.yaml", &text);
            let [found] = &*policies.all() else { panic!("{text}: {:?}", policies.objects) };
            assert!(found.fault.is_none() && !found.remnant, "{text}: {found:?}");
            assert_eq!(policies.closed(), ["one"], "{text}");
            assert!(policies.says("stays in force"), "{text}: {:?}", policies.problems);
        }
        policies.write("a.yaml", &policy("{name: p}", "two"));
        assert_eq!(policies.closed(), ["two"], "{text}");
        assert!(!policies.says("error"), "{text}: {:?}", policies.problems);
        policies.write("a.yaml", "# nothing\n");
        assert_eq!(policies.all(), [], "{text}");
    }
}

#[test]
fn a_broken_edit_that_guards_more_counts_too() {
    let mut policies = Policies::of(&[("a.yaml", &policy("{name: p}", "one"))]);
    policies.write("a.yaml", &policy("{name: p, labels: {a: 1}}", "two"));
    assert_eq!(policies.closed(), ["one", "two"]);
    // The form that was good counts on, whatever broken ones there were since.
    policies.write("a.yaml", &policy("{name: p, labels: {a: 1}}", "three"));
    assert_eq!(policies.closed(), ["one", "three"]);
    let harmless = policy("{name: p}", "one").replace("SecurityPolicy", "BackendTrafficPolicy").replace("jwt", "retry");
    let mut policies = Policies::of(&[("a.yaml", &harmless)]);
    policies.write("a.yaml", &harmless.replace("/v1alpha1", "/v1"));
    assert!(!policies.objects.values().any(Object::is_guard), "{:?}", policies.objects);
    policies.write("a.yaml", &harmless.replace("{name: p}", "{name: p, labels: {a: 1}}").replace("retry", "rateLimit"));
    assert!(policies.objects.values().all(Object::is_guard), "{:?}", policies.objects);
}

#[test]
fn policies_that_are_written_twice_all_close() {
    let [one, two] = ["one", "two"].map(|route| policy("{name: p}", route));
    let mut policies = Policies::of(&[("a.yaml", &one), ("b.yaml", &two)]);
    assert_eq!(policies.closed(), ["one", "two"]);
    assert!(
        policies.says("written twice") && policies.says("guards counts for that one too"),
        "{:?}",
        policies.problems
    );
    policies.remove("a.yaml");
    assert_eq!(policies.closed(), ["two"]);
    policies.write("b.yaml", &join(&[two.clone(), one.clone()]));
    assert_eq!(policies.closed(), ["one", "two"]);
    policies.write("b.yaml", &join(&[two.clone(), two.clone()]));
    assert_eq!(policies.closed(), ["two"]);
    policies.write("b.yaml", &two);
    assert!(policies.all().iter().all(|found| found.fault.is_none()), "{:?}", policies.all());
    // Without a name there may be several that are meant.
    let [one, two] = ["one", "two"].map(|route| policy("{}", route));
    assert_eq!(Policies::of(&[("a.yaml", &one), ("b.yaml", &two)]).closed(), ["one", "two"]);
}

#[test]
fn of_tls_policies_that_are_written_twice_nothing_is_sent_to_the_targets() {
    let policy = |services: &[&str]| {
        let targets: Vec<String> =
            services.iter().map(|name| format!("{{group: \"\", kind: Service, name: {name}}}")).collect();
        let targets = targets.join(", ");
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: p}}\nspec: {{targetRefs: [{targets}], \
             validation: {{wellKnownCACertificates: System, hostname: x.test}}}}\n"
        )
    };
    let found = |policies: &Policies| {
        let specs = policies.objects.values().map(|object| match object {
            Object::BackendTlsPolicy(policy) => policy.spec.clone(),
            other => panic!("{other:?}"),
        });
        let [spec] = &*specs.collect::<Vec<_>>() else { panic!("one policy") };
        let names: Vec<String> = spec.target_refs.iter().map(|target| target.name.to_string()).collect();
        (names.join(" "), spec.fault.is_some())
    };
    let [one, two] = [policy(&["one"]), policy(&["one", "two"])];
    let mut policies = Policies::of(&[("a.yaml", &one), ("b.yaml", &two)]);
    assert_eq!(found(&policies), ("one two".to_owned(), true));
    assert!(
        policies.says("written twice") && policies.says("guards counts for that one too"),
        "{:?}",
        policies.problems
    );
    policies.write("b.yaml", &one);
    assert_eq!(found(&policies), ("one".to_owned(), false), "the second text is for nothing else");
    policies.write("b.yaml", &two);
    policies.remove("a.yaml");
    assert_eq!(found(&policies), ("one two".to_owned(), false));
}

#[test]
fn a_policy_of_a_broken_document_is_not_opened_by_one_of_its_name_elsewhere() {
    let mut policies = Policies::of(&[("a.yaml", &policy("{name: p}", "one"))]);
    policies.write("a.yaml", &policy("{name: p, labels: {a: 1}}", "one"));
    policies.write("b.yaml", &policy("{name: p}", "two"));
    assert_eq!(policies.closed(), ["one", "two"]);
    // A file that is gone has moved there.
    policies.catalog.vanish(&spot("a.yaml"));
    policies.commit();
    assert_eq!(policies.closed(), ["two"]);
}
