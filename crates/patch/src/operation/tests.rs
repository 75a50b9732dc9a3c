//! Each operation on one document.

use serde_json::{Value, json};

use super::{Action, Budget, OperationError, Place};

fn document() -> Value {
    json!({
        "name": "shop", "stat_prefix": "http", "a/b": {"~": 1},
        "filters": [{"name": "cors", "on": true}, {"name": "lua", "on": true}, {"name": "router"}],
    })
}

/// One operation, with the budget of the document.
fn apply(document: &mut Value, action: Action<'_>, place: Place<'_>) -> Result<(), OperationError> {
    let mut budget = Budget::of([&*document]);
    super::apply(document, action, place, &mut budget)
}

/// The document after an operation, or what is wrong.
fn check(action: Action<'_>, (query, pointer): (Option<&str>, &str), expect: Result<Value, &str>) {
    let mut changed = document();
    let place = Place { query, pointer };
    let result = apply(&mut changed, action, place).map_err(|error| error.to_string()).map(|()| changed);
    assert_eq!(result, expect.map_err(str::to_owned), "{action:?} at {place:?}");
}

fn with(change: impl FnOnce(&mut Value)) -> Result<Value, &'static str> {
    let mut changed = document();
    change(&mut changed);
    Ok(changed)
}

fn at(pointer: &str) -> (Option<&str>, &str) {
    (None, pointer)
}

#[test]
fn each_operation_does_what_the_rfc_says() {
    let new = json!({"name": "new"});
    check(Action::Add(&new), at("/filters/1"), with(|it| it["filters"].as_array_mut().unwrap().insert(1, new.clone())));
    check(Action::Add(&new), at("/filters/-"), with(|it| it["filters"].as_array_mut().unwrap().push(new.clone())));
    check(Action::Add(&json!("x")), at("/name"), with(|it| it["name"] = json!("x")));
    check(Action::Add(&new), at(""), Ok(new.clone()));
    check(Action::Remove, at("/filters/0"), with(|it| drop(it["filters"].as_array_mut().unwrap().remove(0))));
    check(Action::Remove, at("/a~1b/~0"), with(|it| it["a/b"] = json!({})));
    check(Action::Replace(&json!("x")), at("/filters/2/name"), with(|it| it["filters"][2]["name"] = json!("x")));
    check(Action::Copy("/name"), at("/other"), with(|it| it["other"] = json!("shop")));
    check(Action::Test(&json!("shop")), at("/name"), Ok(document()));
    let moved = |it: &mut Value| {
        let filters = it["filters"].as_array_mut().unwrap();
        let first = filters.remove(0);
        filters.push(first);
    };
    check(Action::Move("/filters/0"), at("/filters/-"), with(moved));
}

#[test]
fn parents_that_are_missing_are_made_by_add_alone() {
    check(Action::Add(&json!(1)), at("/x/y/0/z"), with(|it| it["x"] = json!({"y": [{"z": 1}]})));
    check(
        Action::Add(&json!(1)),
        at("/filters/-/z"),
        with(|it| it["filters"].as_array_mut().unwrap().push(json!({"z": 1}))),
    );
    let there = "the whole has no x; there is name, stat_prefix, a/b, filters";
    check(Action::Replace(&json!(1)), at("/x/y"), Err(there));
    check(Action::Remove, at("/x"), Err(there));
}

#[test]
fn a_member_is_found_under_the_name_of_the_proto_file() {
    check(Action::Replace(&json!("x")), at("/statPrefix"), with(|it| it["stat_prefix"] = json!("x")));
    check(Action::Add(&json!("x")), at("/statPrefix"), with(|it| it["stat_prefix"] = json!("x")));
}

#[test]
fn what_cannot_be_done_is_said_with_its_place() {
    check(Action::Remove, at("/filters/3"), Err("/filters has 3 items, and no place 3"));
    check(Action::Remove, at("/filters/01"), Err("/filters has 3 items, and no place 01"));
    check(Action::Add(&json!(1)), at("/filters/4"), Err("/filters has 3 items, and no place 4"));
    check(Action::Add(&json!(1)), at("/name/x"), Err("/name is a text and has nothing inside"));
    check(Action::Remove, at("/filters/0/nam"), Err("/filters/0 has no nam; there is name, on"));
    check(Action::Remove, at("name"), Err("\"name\" is no JSON pointer: one begins with /"));
    check(Action::Remove, at(""), Err("the whole cannot be taken away, and not be moved"));
    check(Action::Move("/a~1b"), at("/a~1b/c"), Err("/a~1b cannot be moved into itself"));
    check(Action::Test(&json!("x")), at("/name"), Err("/name is \"shop\", not \"x\""));
}

#[test]
fn a_json_path_names_any_number_of_places() {
    let on = Some("$.filters[?(@.on == true)]");
    let off = |it: &mut Value| (0..2).for_each(|at| it["filters"][at]["on"] = json!(false));
    check(Action::Replace(&json!(false)), (on, "/on"), with(off));
    check(Action::Remove, (on, ""), with(|it| it["filters"] = json!([{"name": "router"}])));
    let lua = Some("..filters[?match(@.name, 'l.a')].on");
    check(Action::Replace(&json!(false)), (lua, ""), with(|it| it["filters"][1]["on"] = json!(false)));
    check(Action::Replace(&json!("x")), (Some("name"), ""), with(|it| it["name"] = json!("x")));
    check(Action::Remove, (Some("$.nothing"), ""), Err("$.nothing finds nothing"));
    check(Action::Remove, (Some("$.a[["), ""), Err("\"$.a[[\" is no JSONPath: expected selector"));
}

#[test]
fn nothing_becomes_larger_or_deeper_than_anything_can_be() {
    let deep = "/a".repeat(super::MOST_STEPS + 1);
    check(Action::Add(&json!(1)), at(&deep), Err("a JSON pointer with more than 128 steps"));
    let mut document = document();
    let copy = || Place { query: None, pointer: "/filters/-" };
    let ends = (0..64).find_map(|_| apply(&mut document, Action::Copy("/filters"), copy()).err());
    assert_eq!(ends, Some(OperationError::TooLarge));
}

#[test]
fn nothing_is_copied_that_would_be_too_large() {
    let mut document = json!({"texts": ["x".repeat(20_000)]});
    let copy = || Place { query: None, pointer: "/texts/-" };
    let mut most = 0;
    let ends = (0..64).find_map(|_| {
        let ends = apply(&mut document, Action::Copy("/texts"), copy()).err();
        most = most.max(super::Size::of(&document).bytes);
        ends
    });
    assert_eq!(ends, Some(OperationError::TooLarge));
    assert!(most <= super::size::MOST_BYTES, "{most}");
    let mut many = json!(vec![json!({}); 5_000]);
    let text = json!("x".repeat(10_000));
    let ends = apply(&mut many, Action::Add(&text), Place { query: Some("$[*]"), pointer: "/text" });
    assert_eq!(ends, Err(OperationError::TooLarge));
    assert_eq!(many, json!(vec![json!({}); 5_000]), "nothing is done of it");
}

#[test]
fn a_json_path_that_costs_too_much_is_refused_before_it_is_asked() {
    let many = json!({"filters": vec![json!({"name": "a", "inner": {"name": "b"}}); 3_000]});
    let words = |query: &str| {
        let place = Place { query: Some(query), pointer: "/x" };
        apply(&mut many.clone(), Action::Test(&json!(1)), place).unwrap_err().to_string()
    };
    for query in [
        "$..[?count($..*) > 999999].zz",
        "$..[?count($..[?count($..*)>0])>0].zz",
        "$.filters[?@..name == 'b']",
        "$.filters[?count(@.*) > 1]",
        "$.filters[?@[0:100] == 1]",
        "$.filters[?@[?@.name == 'a'] == 1]",
        "$.filters[?any_of(@.a, @.b)]",
        "$.filters[?!(@.x == 1 && in(@.a, @.b))]",
    ] {
        let words = words(query);
        assert!(words.contains("filter"), "{query}: {words}");
    }
    let wide = format!("$.filters[*]{}", "['name','name']".repeat(16));
    let classes = format!("$..[?match(@.name, '{}')]", r"[\\d&&\\pL]".repeat(40));
    let compares = format!("$..[?{}]", vec!["@.a == 1"; 80].join("||"));
    for query in ["$..*..*..*..*..*..*..*", &wide, &classes, &compares] {
        assert!(words(query).contains("would cost too much on the 12002 values"), "{}", words(query));
    }
    assert!(words(&format!("$.{}", "a".repeat(2_000))).contains("longer than 1024 bytes"));
    // What looks like it in a text is none of it.
    assert_eq!(words("$.filters[?@.name == '$..[?*match(]']"), "$.filters[?@.name == '$..[?*match(]'] finds nothing");
}

/// The refusal of a query on a small document.
fn refusal(query: &str) -> String {
    apply(&mut document(), Action::Remove, Place { query: Some(query), pointer: "" }).unwrap_err().to_string()
}

#[test]
fn pattern_is_a_small_text_in_quotes() {
    for (pattern, expect) in [
        ("@.name", "has to be a text in quotes"),
        (r"'\\w{250}'", "has more than 64 KiB as a program"),
        ("'(?i)a'", "has (?"),
        ("'('", "is no regular expression"),
    ] {
        let query = format!("$.filters[?search(@.name, {pattern})]");
        assert!(refusal(&query).contains(expect), "{}", refusal(&query));
    }
}

#[test]
fn functions_inside_functions_are_refused_before_parsing() {
    for call in ["length(", "length (", "length((", "match(@.a, length("] {
        let query = format!("$.filters[?{}@.name", call.repeat(40));
        assert!(refusal(&query).contains("a function inside a function"), "{call}: {}", refusal(&query));
    }
}

#[test]
fn all_operations_share_one_budget() {
    let items = vec![json!({"name": "a", "on": [true]}); 2_000];
    let query = Some("$..[?match(@.name, 'a')]");
    let (name, whole, one) = (json!("a"), json!(items), json!(1));
    let operations: [(Action<'_>, Option<&str>, &str); 5] = [
        (Action::Test(&name), query, "/name"),
        (Action::Test(&whole), None, ""),
        (Action::Move("/0"), None, "/0"),
        (Action::Copy("/0/name"), None, "/0/name"),
        (Action::Add(&one), None, "/0/on"),
    ];
    for (action, query, pointer) in operations {
        let mut document = json!(items);
        let mut budget = Budget::of([&document]);
        let mut done = 0;
        let ends = loop {
            match super::apply(&mut document, action, Place { query, pointer }, &mut budget) {
                Ok(()) => done += 1,
                Err(error) => break error,
            }
            assert!(done < 10_000, "{action:?} has no end");
        };
        assert_eq!(ends, OperationError::Spent, "{action:?}");
        assert!(done > 1, "{action:?}");
        let next = super::apply(&mut document, Action::Remove, Place { query: None, pointer: "/0" }, &mut budget);
        assert_eq!(next, Err(OperationError::Spent));
    }
}

#[test]
fn long_names_count_for_each_path() {
    let mut document = json!({"x".repeat(1_000_000): vec![0; 5_000]});
    let ends = apply(&mut document, Action::Remove, Place { query: Some("$..*"), pointer: "" });
    assert!(ends.unwrap_err().to_string().contains("would cost too much"), "5 GB of paths");
}
