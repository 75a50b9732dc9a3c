//! Another controller that writes under our controller name.

use super::*;

use api::reference::ParentRef;
use api::status::{RouteParentStatus, RouteStatus};

impl Stage {
    /// An object is there, that has these fields.
    fn with(&self, key: &ObjectKey, fields: &Value) {
        let target = Target::one(Resource::Kind(key.kind().unwrap(), "v1"), key);
        let mut object = json!({ "metadata": { "name": key.name(), "namespace": key.namespace(), "resourceVersion": "1", "generation": 2 } });
        for (name, value) in fields.as_object().unwrap() {
            match name.as_str() {
                "managedFields" => object["metadata"][name] = value.clone(),
                _ => object[name] = value.clone(),
            }
        }
        self.lock().objects.insert(format!("{}/{}", target.path(), key.name()), object.clone());
        self.observed.note(&Seen::look(target.resource, &Bytes::from(object.to_string())).unwrap());
    }

    /// A class has what this manager wrote.
    fn written_by(&self, key: &ObjectKey, manager: &str) {
        let accepted = json!({ "f:conditions": { "k:{\"type\":\"Accepted\"}": { "f:reason": {} } } });
        let fields = json!([{
            "manager": manager, "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:status": accepted },
        }]);
        let status = serde_json::to_value(super::accepted("Theirs")).unwrap();
        self.with(key, &json!({ "managedFields": fields, "status": status }));
    }

    /// Lets a class be replaced by this manager until the writer minds; returns its words.
    async fn contested(&mut self, key: &ObjectKey, manager: &str) -> Arc<str> {
        self.written_by(key, manager);
        for time in 1..=3 {
            self.board.put(key.clone(), Some(accepted("Mine")));
            self.until(|state| state.writes.get(&path(key.name())) == Some(&time)).await;
            self.written_by(key, manager);
        }
        self.board.put(key.clone(), Some(accepted("Mine")));
        let found =
            timeout(DEADLINE, self.refused.wait_for(|refused| !refused.is_empty())).await.expect("it is reported");
        let found = found.unwrap().clone();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, *key);
        Arc::clone(&found[0].1)
    }

    fn gateway_of(&self, name: &str, class: &str) -> ObjectKey {
        let key = ObjectKey::of(Kind::Gateway, "default", name);
        self.with(&key, &json!({ "spec": { "gatewayClassName": class } }));
        key
    }

    fn has_written(state: &State, name: &str) -> bool {
        state.written.iter().any(|path| path.ends_with(&format!("/{name}")))
    }
}

fn route(parents: &[&str]) -> Status {
    let parents = parents.iter().map(|name| RouteParentStatus {
        parent_ref: serde_json::from_value::<ParentRef>(json!({ "name": name, "namespace": "default" })).unwrap(),
        controller_name: "us".into(),
        conditions: Vec::new(),
    });
    Status::Route(RouteStatus { parents: parents.collect() })
}

#[tokio::test]
async fn a_class_that_another_controller_writes_holds_back_its_own_and_no_other() {
    let mut stage = Stage::leading().await;
    let class = ObjectKey::of(Kind::GatewayClass, "", "contested");
    let words = stage.contested(&class, "envoy-gateway").await;
    assert!(words.contains("\"envoy-gateway\"") && words.contains("controllerName us"), "{words}");

    let (held, free) = (stage.gateway_of("held", "contested"), stage.gateway_of("free", "other"));
    let routes = ["of-held", "of-both", "of-free"].map(|name| ObjectKey::of(Kind::HttpRoute, "default", name));
    routes.iter().for_each(|key| stage.with(key, &json!({})));
    let set = ObjectKey::of(Kind::ListenerSet, "default", "set");
    stage.with(&set, &json!({ "spec": { "parentRef": { "name": "held" } } }));
    for key in [&held, &set, &free] {
        stage.board.put(key.clone(), Some(accepted("Mine")));
    }
    for (key, parents) in routes.iter().zip([&["held"][..], &["held", "free"], &["free"]]) {
        stage.board.put(key.clone(), Some(route(parents)));
    }
    stage.until(|state| ["free", "of-both", "of-free"].iter().all(|name| Stage::has_written(state, name))).await;
    for name in ["held", "set", "of-held"] {
        assert!(!Stage::has_written(&stage.lock(), name), "{name}");
    }

    // It writes no more: the class stays as it was written, and what was held back is written.
    stage.until(|state| state.writes[&path("contested")] > 3).await;
    let status = stage.lock().objects[&path("contested")]["status"].clone();
    stage.with(&class, &json!({ "status": status }));
    stage.until(|state| ["held", "set", "of-held"].iter().all(|name| Stage::has_written(state, name))).await;
    timeout(DEADLINE, stage.refused.wait_for(Vec::is_empty)).await.expect("it is withdrawn").unwrap();
    stage.end().await;
}

#[tokio::test]
async fn writers_of_our_own_name_hold_back_no_other_status() {
    let mut stage = Stage::leading().await;
    let class = ObjectKey::of(Kind::GatewayClass, "", "contested");
    let words = stage.contested(&class, "us").await;
    assert!(words.contains("another installation"), "{words}");
    let gateway = stage.gateway_of("edge", "contested");
    stage.board.put(gateway, Some(accepted("Mine")));
    stage.until(|state| Stage::has_written(state, "edge")).await;
    stage.end().await;
}

#[test]
fn the_last_writer_of_a_class_is_another_only_if_it_wrote_since_we_did() {
    let entry = |manager: &str, time: &str, condition: &str| {
        let conditions = json!({ format!("k:{{\"type\":\"{condition}\"}}"): { ".": {}, "f:status": {} } });
        json!({ "manager": manager, "time": time, "subresource": "status", "fieldsV1": { "f:status": { "f:conditions": conditions } } })
    };
    let found = |entries: &[Value]| {
        let observed = Observed::new("us");
        let object = json!({ "metadata": { "name": "one", "managedFields": entries } });
        let seen = Seen::look(Resource::Kind(Kind::GatewayClass, "v1"), &Bytes::from(object.to_string())).unwrap();
        observed.note(&seen);
        observed.other_writer(&seen.key).map(String::from)
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z");
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[entry("us", late, "Accepted")]), None);
    assert_eq!(found(&[entry("them", early, "Accepted"), entry("us", late, "Accepted")]), None, "left from before");
    assert_eq!(found(&[entry("them", late, "Accepted"), entry("us", early, "Accepted")]).as_deref(), Some("them"));
    assert_eq!(found(&[entry("them", late, "Accepted"), entry("us", late, "Accepted")]).as_deref(), Some("them"));
    assert_eq!(found(&[entry("them", late, "example.com/Theirs"), entry("us", early, "Accepted")]), None);
    for broken in [
        json!(7),
        json!({ "fieldsV1": 7 }),
        json!({ "manager": 7, "fieldsV1": { "f:status": { "f:conditions": [] } } }),
    ] {
        assert_eq!(found(&[broken]), None);
    }
}
