//! The golden corpus: one input and every stage's output. `UPDATE=1` (`make golden`) rewrites the outputs; `CASE=tls/` looks only at cases with that in
//! their path.
//!
//! `cases/<area>/<case>/input.yaml` opens with a title comment; a second line `# golden: status` (or `status, ir`) names the outputs
//! that the case records, all three otherwise. `cases/<area>/_base.yaml` is read before it. Whatever is recorded, Envoy's own
//! `--mode validate` must accept what the case becomes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use api::{Kind, Object, ObjectKey};
use tests::binary;
use tests::certificate::Marks;

const STAGES: [&str; 3] = ["status", "ir", "envoy"];

#[test]
fn every_case_becomes_what_is_recorded_and_envoy_accepts_it() {
    let mut cases = cases().unwrap();
    assert!(cases.len() >= 1_100, "only {} cases", cases.len());
    if let Some(part) = std::env::var_os("CASE").filter(|part| !part.is_empty()) {
        cases.retain(|case| case.to_string_lossy().contains(&*part.to_string_lossy()));
        assert!(!cases.is_empty(), "no case has {} in its path", part.display());
    }
    let (marks, failures, next) = (Marks::default(), Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = check(case, &marks) {
                        failures.lock().unwrap().push(format!("{}: {error:#}", case.display()));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

/// What is not would stay in statuses once it is over, as if somebody else had written it.
#[test]
fn every_condition_that_is_written_is_known_as_ours() {
    let mut types = BTreeSet::new();
    for case in cases().unwrap() {
        let Ok(text) = std::fs::read_to_string(case.join("status.yaml")) else { continue };
        types_of_conditions(&serde_saphyr::from_str(&text).unwrap(), &mut types);
    }
    assert!(types.len() > 10, "{types:?}");
    let unknown: Vec<&String> = types.iter().filter(|word| !api::status::is_own_condition(word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn types_of_conditions(value: &serde_json::Value, types: &mut BTreeSet<String>) {
    if let (Some(word), true) = (value["type"].as_str(), value["reason"].is_string()) {
        types.insert(word.to_owned());
    }
    let items = value.as_array().into_iter().flatten();
    items
        .chain(value.as_object().into_iter().flat_map(|fields| fields.values()))
        .for_each(|it| types_of_conditions(it, types));
}

/// A source that reads only the Secrets and `ConfigMap`s that objects name (Kubernetes) gives the translator all that it looks up.
#[test]
fn without_what_no_object_names_everything_becomes_the_same() {
    let (marks, mut named, mut left_out) = (Marks::default(), 0, 0);
    for case in cases().unwrap() {
        let place = tempfile::tempdir().unwrap();
        let input = std::fs::read_to_string(case.join("input.yaml")).unwrap();
        let files = filled(&case, &input, &marks, place.path()).unwrap();
        let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let named_here = references(&texts);
        let (kept, dropped) = texts.iter().map(|text| without(text, &named_here)).unzip::<_, _, Vec<_>, Vec<_>>();
        named += usize::from(!named_here.is_empty());
        if dropped.iter().all(|count| *count == 0) {
            continue;
        }
        left_out += dropped.iter().sum::<usize>();
        let stages = ["ir", "status"].map(|stage| ["--to", stage, "--output", "json"]);
        let before = stages.map(|options| translate(&files, &options).unwrap());
        files.iter().zip(kept).for_each(|(file, text)| std::fs::write(file, text).unwrap());
        let after = stages.map(|options| translate(&files, &options).unwrap());
        assert_eq!(before, after, "{}", case.display());
    }
    assert!(named >= 10 && left_out >= 2, "{named} cases name any, {left_out} objects were left out");
}

/// The Secrets and `ConfigMap`s that objects of these texts name.
fn references(texts: &[String]) -> BTreeSet<ObjectKey> {
    let file = "input.yaml".into();
    let documents = texts.iter().flat_map(|text| api::yaml::documents(text));
    let objects = documents.flat_map(|document| api::read(&document, &file).objects);
    let named = objects.flat_map(|object| object.references());
    named.filter(|key| matches!(key.kind(), Some(Kind::Secret | Kind::ConfigMap))).collect()
}

/// A text without Secrets and `ConfigMap`s but these, and how many are left out.
fn without(text: &str, named: &BTreeSet<ObjectKey>) -> (String, usize) {
    let file = "input.yaml".into();
    let is_meant =
        |object: &Object| !matches!(object.kind(), Kind::Secret | Kind::ConfigMap) || named.contains(object.key());
    let (mut kept, mut dropped) = (Vec::new(), 0);
    for document in api::yaml::documents(text) {
        if api::read(&document, &file).objects.iter().all(is_meant) {
            kept.push(document.text);
        } else {
            dropped += 1;
        }
    }
    (kept.join("\n---\n"), dropped)
}

/// Every folder with an input, in order of path.
fn cases() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for area in std::fs::read_dir(binary::root().join("tests/cases"))? {
        for case in std::fs::read_dir(area?.path())? {
            let folder = case?.path();
            if folder.join("input.yaml").is_file() {
                found.push(folder);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn check(case: &Path, marks: &Marks) -> anyhow::Result<()> {
    let input = std::fs::read_to_string(case.join("input.yaml"))?;
    let place = tempfile::tempdir()?;
    let files = filled(case, &input, marks, place.path())?;
    let recorded = recorded(&input)?;
    for stage in STAGES {
        let file = case.join(format!("{stage}.yaml"));
        if !recorded.contains(&stage) {
            anyhow::ensure!(!file.exists(), "{stage}.yaml is there but the title line does not name it");
            continue;
        }
        let text = translate(&files, &["--to", stage, "--output", "yaml"])?;
        compare(&file, &if stage == "status" { shortened(&text, &input) } else { text })?;
    }
    validate(&translate(&files, &["--to", "envoy", "--output", "json", "--show-secrets"])?, place.path())
}

/// The outputs that a case records.
fn recorded(input: &str) -> anyhow::Result<Vec<&str>> {
    let mut lines = input.lines();
    anyhow::ensure!(lines.next().is_some_and(|line| line.starts_with("# ")), "the first line is no title comment");
    let Some(named) = lines.next().and_then(|line| line.strip_prefix("# golden:")) else { return Ok(STAGES.to_vec()) };
    let named: Vec<&str> = named.split(',').map(str::trim).collect();
    anyhow::ensure!(
        named.iter().all(|stage| STAGES.contains(stage)),
        "`# golden:` names something else than {STAGES:?}"
    );
    Ok(named)
}

/// Base and input with certificates put in, as files of a folder of their own.
fn filled(case: &Path, input: &str, marks: &Marks, place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let base = case.parent().context("a case without an area")?.join("_base.yaml");
    if base.is_file() {
        files.push(place.join("base.yaml"));
        std::fs::write(place.join("base.yaml"), marks.fill(&std::fs::read_to_string(base)?)?)?;
    }
    files.push(place.join("input.yaml"));
    std::fs::write(place.join("input.yaml"), marks.fill(input)?)?;
    Ok(files)
}

fn translate(files: &[PathBuf], options: &[&str]) -> anyhow::Result<String> {
    let mut args = vec!["translate".to_owned()];
    for file in files {
        args.extend(["-f".to_owned(), file.display().to_string()]);
    }
    args.extend(options.iter().map(|option| (*option).to_owned()));
    let output = binary::run(&args, "")?;
    let text = String::from_utf8(output.stdout)?;
    anyhow::ensure!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// Statuses without what says nothing about a case: times, the list of features, and the class of the base.
fn shortened(text: &str, input: &str) -> String {
    let items = text.split_inclusive('\n').fold(Vec::<String>::new(), |mut items, line| {
        match items.last_mut() {
            Some(item) if !line.starts_with("- ") => item.push_str(line),
            _ => items.push(line.to_owned()),
        }
        items
    });
    let own = |item: &&String| !item.contains("  kind: GatewayClass\n") || input.contains("kind: GatewayClass\n");
    let kept = items.iter().filter(own).flat_map(|item| item.split_inclusive('\n')).scan(false, |features, line| {
        *features = line == "    supportedFeatures:\n" || (*features && line.starts_with("    - name: "));
        Some((*features, line))
    });
    kept.filter(|(features, line)| !features && !line.contains(" lastTransitionTime: ")).map(|(_, line)| line).collect()
}

fn compare(file: &Path, actual: &str) -> anyhow::Result<()> {
    if std::env::var_os("UPDATE").is_some_and(|word| !word.is_empty()) {
        return Ok(std::fs::write(file, actual)?);
    }
    let expected =
        std::fs::read_to_string(file).with_context(|| format!("{} (make golden writes it)", file.display()))?;
    if let Some((line, (old, new))) = differing(&expected, actual) {
        anyhow::bail!("{}:{line}: recorded `{old}`, got `{new}`", file.display());
    }
    Ok(())
}

/// The first line that differs, counted from 1.
fn differing<'a>(expected: &'a str, actual: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let longest = expected.lines().count().max(actual.lines().count());
    let lines = |text: &'a str| text.lines().chain(std::iter::repeat("<nothing>")).take(longest);
    lines(expected)
        .zip(lines(actual))
        .enumerate()
        .find(|(_, (old, new))| old != new)
        .map(|(index, pair)| (index + 1, pair))
}

/// Envoy itself reads the configuration: the only one, or that of each Gateway.
fn validate(configuration: &str, place: &Path) -> anyhow::Result<()> {
    let value: serde_json::Value = serde_json::from_str(configuration)?;
    let fleets = value.as_object().context("no object")?;
    if fleets.contains_key("staticResources") {
        return validate_one(&value, place);
    }
    fleets.values().try_for_each(|one| validate_one(one, place))
}

fn validate_one(configuration: &serde_json::Value, place: &Path) -> anyhow::Result<()> {
    let file = place.join("envoy.json");
    std::fs::write(&file, configuration.to_string())?;
    let output = Command::new(binary::envoy()?)
        .args(["--mode", "validate", "--log-level", "error", "--disable-hot-restart", "-c"])
        .arg(&file)
        .output()?;
    anyhow::ensure!(output.status.success(), "envoy refuses it: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
