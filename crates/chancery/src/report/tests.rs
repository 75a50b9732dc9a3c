//! What is told of objects that have no status.

use provider::file::{Input, Texts, load_inputs};
use translator::{Options, Translator};

use super::{findings, statuses, unread};

#[test]
fn what_cannot_be_read_is_listed_and_what_is_for_others_or_has_no_line_is_not() {
    let gateway = |name: &str, class: &str, more: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\nspec:\n  gatewayClassName: {class}\n  \
             listeners: [{{name: a, port: 80, protocol: HTTP{more}}}]\n---\n"
        )
    };
    let text = gateway("ours", "chancery", "")
        + "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: foreign}\nspec: {controllerName: x.example/c}\n---\n"
        + &gateway("foreign", "foreign", ", tls: {certificateRefs: [{name: c}]}")
        + "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: lost}\nspec:\n  parentRef: {name: ours}\n---\n"
        + "apiVersion: v1\nkind: Service\nmetadata: {name: lost}\nspec: {ports: 7}\n";
    let mut translator =
        Translator::new(Options { file_mode: true, offline: true, read_raw: envoy::read_raw, ..Options::default() });
    let (store, graph) = translator.store();
    store.apply(graph, load_inputs(&[Input::Text { name: "a".into(), bytes: text.into_bytes() }]).into_batch());
    translator.tick();
    let (graph, outputs) = (translator.graph(), translator.outputs());
    let found = findings(translator.stored(), graph, outputs);
    let unread = unread(&found, &statuses(graph, outputs));
    let names: Vec<_> =
        unread.as_array().into_iter().flatten().map(|one| (&one["kind"], &one["metadata"]["name"])).collect();
    assert_eq!(names, [(&"HTTPRoute".into(), &"lost".into())], "{:#?}", found.complete(&Texts::default()));
}
