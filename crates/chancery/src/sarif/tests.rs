//! Logs in SARIF.

use api::{Kind, ObjectKey, RefusalKind};
use serde_json::json;

use super::*;

fn at(file: &str, line: u32, column: u32) -> Option<Place> {
    Some(Place { file: file.into(), line, column })
}

#[test]
fn rules_are_fields_or_reasons_and_places_are_relative() {
    let key = ObjectKey::of(Kind::HttpRoute, "default", "shop");
    let field = |number: u8| Problem {
        place: at("a b/ü.yaml", 7, 3),
        snippet: Some("  port: 1".into()),
        ..Problem::of(&key, format!("spec.rules[{number}].backendRefs[0].port"), Severity::Error, "no port")
    };
    let refused =
        Problem { place: at("/elsewhere/x.yaml", 0, 0), ..Problem::of(&key, "", Severity::Warning, "refused") };
    let refused = refused.refusing(Some(RefusalKind::Socket));
    let broken = Problem { place: at("../work/./b.yaml", 1, 1), ..Problem::unbound(Severity::Note, "broken") };
    let typed = Problem { place: at("<stdin>", 1, 1), ..Problem::unbound(Severity::Error, "typed") };
    let all = [field(0), field(1), refused, broken, typed];
    let log = log(all.iter(), Path::new("/work"));
    let run = &log["runs"][0];
    let port = "HTTPRoute/spec.rules.backendRefs.port";
    assert_eq!(run["tool"]["driver"]["rules"], json!([{ "id": port }, { "id": "socket" }, { "id": "file" }]));
    let place = |at: usize| &run["results"][at]["locations"][0]["physicalLocation"];
    assert_eq!(
        run["results"][0],
        json!({
            "ruleId": port, "ruleIndex": 0, "level": "error", "message": { "text": "no port" },
            "locations": [{
                "physicalLocation": {
                    "artifactLocation": { "uri": "a%20b/%C3%BC.yaml", "uriBaseId": "%SRCROOT%" },
                    "region": { "startLine": 7, "startColumn": 3, "snippet": { "text": "  port: 1" } },
                },
                "logicalLocations": [{ "fullyQualifiedName": "HTTPRoute/default/shop/spec.rules[0].backendRefs[0].port" }],
            }],
        })
    );
    assert_eq!(run["results"][1]["ruleIndex"], 0);
    assert_eq!(place(2)["artifactLocation"], json!({ "uri": "file:///elsewhere/x.yaml" }));
    assert_eq!(place(2)["region"], json!({ "startLine": 1, "startColumn": 1 }));
    assert_eq!(place(3)["artifactLocation"]["uri"], "b.yaml");
    assert_eq!(run["results"][4].get("locations"), None);
}
