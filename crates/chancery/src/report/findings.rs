//! All that is wrong, for people: gathered by the core's thread, completed where it holds up nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::locate::{Sought, places};
use api::{Kind, ObjectKey, Place, Problem, RefusalKind, RouteObject, Severity};
use engine::Graph;
use provider::file::Texts;
use serde_json::{Value, json};
use store::Store;
use translator::{Outputs, rule_names};

/// So many problems get the name that may be meant. Each is compared with all names of its kind and namespace, a microsecond per
/// name: a second for 10,000 names.
const MAX_SUGGESTED: usize = 100;

/// Among so many objects of a kind a name is looked for: the core's thread goes through their names, a millisecond for this many.
const MAX_NAMES: usize = 10_000;

/// Problems, without what takes files or time to find out.
pub(crate) struct Findings {
    /// What sources say of texts.
    told: Vec<Problem>,
    /// What translation says of objects: it may follow from what sources say.
    derived: Vec<Problem>,
    /// Names of the kinds and namespaces in which something is named that is not there.
    names: BTreeSet<ObjectKey>,
    /// Objects of which an earlier version is in force.
    earlier: BTreeSet<ObjectKey>,
    /// Objects of which nothing is in force because of what a source says of them.
    unread: BTreeSet<ObjectKey>,
}

/// All problems: those of sources and those that translation found, each once. What a source said of an object or its field is not
/// said again of the same field or one in it, or in the words of what follows from it; what follows for its field is said with it.
pub(crate) fn findings(store: &Store, graph: &Graph, outputs: Outputs) -> Findings {
    let mut told: Vec<Problem> = store.problems().cloned().collect();
    let mut derived: Vec<Problem> = outputs.problems(graph).map(|(_, problem)| placed(store, graph, problem)).collect();
    let consequences = consequences(&derived, &told);
    let mut said: BTreeMap<Option<&ObjectKey>, Vec<&Problem>> = BTreeMap::new();
    for problem in &told {
        said.entry(problem.object.as_ref()).or_default().push(problem);
    }
    let repeats = |problem: &Problem| {
        let around = problem.path.rsplit_once('.').map_or("", |(around, _)| around);
        let same_field = |told: &Problem| {
            let same = told.path == problem.path || *told.path == *around;
            told.severity == Severity::Error && !told.path.is_empty() && same
        };
        said.get(&problem.object.as_ref())
            .is_some_and(|all| all.iter().any(|told| same_field(told) || problem.text.contains(&*told.text)))
    };
    derived.retain(|problem| !repeats(problem));
    for (problem, text) in told.iter_mut().zip(consequences) {
        problem.text = text.unwrap_or_else(|| std::mem::take(&mut problem.text));
    }
    derived.extend(graph.panics().iter().map(|panic| {
        let text = format!("{} of {}: {} (a bug in Chancery: please report it)", panic.node, panic.key, panic.message);
        Problem::unbound(Severity::Error, text)
    }));
    let names = names(store, graph, &mut derived);
    broken(&told, &mut derived);
    let earlier = told.iter().filter(|problem| problem.earlier).filter_map(|problem| problem.object.clone()).collect();
    let errors = told.iter().filter(|problem| problem.severity == Severity::Error);
    let objects = errors.filter_map(|problem| problem.object.as_ref());
    let unread = objects.filter(|object| store.tables().get(graph, object).is_none()).cloned().collect();
    Findings { told, derived, names, earlier, unread }
}

/// The objects and lines of rules, by the names of their routes in Envoy, without the lines that only files have.
pub(crate) struct RuleSources(Vec<(Arc<str>, Problem)>);

/// Returns those of all routes.
pub(crate) fn rule_sources(store: &Store, graph: &Graph) -> RuleSources {
    let tables = store.tables();
    let keys = RouteObject::KINDS.iter().flat_map(|kind| tables.keys(graph, *kind));
    let routes = keys.filter_map(|key| Some((key, graph.get(tables.routes, key)?)));
    let rules = routes.flat_map(|(key, route)| {
        let rule = |(index, name): (usize, Arc<str>)| {
            let sought = Problem::of(key, format!("spec.rules[{index}]"), Severity::Note, "");
            (name, placed(store, graph, &Arc::new(sought)))
        };
        rule_names(route).into_iter().enumerate().map(rule).collect::<Vec<_>>()
    });
    RuleSources(rules.collect())
}

impl RuleSources {
    /// By name: the object, the field of the rule, and its place where a file has it. Reads files: not for the core's thread.
    pub(crate) fn complete(mut self, texts: &Texts) -> Value {
        pinpoint(self.0.iter_mut().map(|(_, sought)| sought), &|file| texts.get(file));
        let entry = |(name, sought): &(Arc<str>, Problem)| {
            let object = sought.object.as_ref().map(ToString::to_string);
            let place = sought.place.as_ref().map(ToString::to_string);
            (name.to_string(), json!({ "object": object, "rule": &*sought.path, "place": place }))
        };
        Value::Object(self.0.iter().map(entry).collect())
    }
}

/// Where translation says the same as a source, and what follows from it: its words.
fn consequences(derived: &[Problem], told: &[Problem]) -> Vec<Option<Box<str>>> {
    let mut said: BTreeMap<(Option<&ObjectKey>, &str), Vec<&str>> = BTreeMap::new();
    for problem in derived {
        said.entry((problem.object.as_ref(), &*problem.path)).or_default().push(&problem.text);
    }
    let of = |problem: &Problem| {
        let same = said.get(&(problem.object.as_ref(), &*problem.path)).into_iter().flatten();
        let follows = |text: &&str| text.strip_prefix(&*problem.text).is_some_and(|more| more.starts_with(" ("));
        same.copied().find(follows).map(Box::from)
    };
    told.iter().map(of).collect()
}

/// What is written and cannot be read is not there, and no other name is meant.
fn broken(told: &[Problem], problems: &mut [Problem]) {
    let errors = told.iter().filter(|problem| problem.severity == Severity::Error);
    let objects: BTreeSet<&ObjectKey> = errors.filter_map(|problem| problem.object.as_ref()).collect();
    for problem in problems {
        if let Some(named) = problem.refers_to.take_if(|named| objects.contains(named)) {
            problem.text = format!("{}: what is written of {named} cannot be used", problem.text).into();
        }
    }
}

/// The names among which those may be that are named and not there. What is there is forgotten as a question.
fn names(store: &Store, graph: &Graph, problems: &mut [Problem]) -> BTreeSet<ObjectKey> {
    let tables = store.tables();
    let (mut spaces, mut own) = (BTreeSet::new(), BTreeSet::new());
    for problem in problems {
        problem.refers_to.take_if(|named| tables.get(graph, named).is_some());
        let Some((kind, named)) = problem.refers_to.as_ref().and_then(|named| Some((named.kind()?, named))) else {
            continue;
        };
        spaces.insert((kind, named.namespace()));
        own.insert((kind, named.name()));
    }
    let kinds: BTreeSet<Kind> = spaces.iter().map(|(kind, _)| *kind).collect();
    let kinds = kinds.into_iter().filter(|kind| tables.len(graph, *kind) <= MAX_NAMES);
    let all = kinds.flat_map(|kind| tables.keys(graph, kind).map(move |key| (kind, key)));
    let is_near =
        |kind: Kind, key: &ObjectKey| spaces.contains(&(kind, key.namespace())) || own.contains(&(kind, key.name()));
    all.filter(|(kind, key)| is_near(*kind, key)).map(|(_, key)| key.clone()).collect()
}

impl Findings {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.told.len() + self.derived.len()
    }

    /// Returns the reason of each that refuses what an author asks for.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = RefusalKind> {
        self.told.iter().chain(&self.derived).filter_map(|problem| problem.refusal)
    }

    /// How many objects there are of which nothing is in force because of what a source says of them.
    pub(crate) fn unusable(&self) -> usize {
        self.unread.len()
    }

    /// Gateways and routes, and what is beside them, of which nothing is in force.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &ObjectKey> {
        let has_row =
            |kind: Kind| kind.is_route() || matches!(kind, Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet);
        self.unread.iter().filter(move |object| object.kind().is_some_and(has_row))
    }

    /// With lines and columns, and with names that may be meant; in order of place, causes before what follows from them. Reads
    /// files and compares names: not for the core's thread.
    pub(crate) fn complete(self, texts: &Texts) -> Vec<Problem> {
        self.complete_from(&|file| texts.get(file))
    }

    /// The same; `text_of` gives what stands in a file, or in what stands for one.
    pub(crate) fn complete_from(self, text_of: &dyn Fn(&str) -> Option<String>) -> Vec<Problem> {
        let Self { mut told, mut derived, names, earlier, unread: _ } = self;
        // Which of them get a name must not depend on what came first.
        derived.sort_unstable();
        let missing = derived.iter_mut().filter(|problem| problem.refers_to.is_some());
        missing.take(MAX_SUGGESTED).for_each(|problem| suggest(problem, &names));
        pinpoint(told.iter_mut(), text_of);
        // Of an earlier version nothing is in the file any more.
        let is_earlier = |problem: &Problem| problem.object.as_ref().is_some_and(|object| earlier.contains(object));
        pinpoint(derived.iter_mut().filter(|problem| !is_earlier(problem)), text_of);
        for problem in derived.iter_mut().filter(|problem| is_earlier(problem)) {
            problem.text = format!("{} (of the earlier version)", problem.text).into();
        }
        for problems in [&mut told, &mut derived] {
            problems.sort_by(|a, b| (&a.place, a).cmp(&(&b.place, b)));
            problems.dedup();
        }
        told.append(&mut derived);
        told
    }
}

fn suggest(problem: &mut Problem, names: &BTreeSet<ObjectKey>) {
    let Some(named) = problem.refers_to.take() else { return };
    let of_kind = || names.iter().filter(|key| key.kind() == named.kind());
    let beside = of_kind().filter(|key| key.namespace() == named.namespace()).map(ObjectKey::name);
    let elsewhere = || {
        let mut namesakes = of_kind().filter(|key| key.name() == named.name());
        let only = namesakes.next()?.to_string();
        namesakes.next().is_none().then_some(only)
    };
    let near = api::nearest(named.name(), beside).map(str::to_owned).or_else(elsewhere);
    if let Some(near) = near {
        problem.text = format!("{}; did you mean {near}?", problem.text).into();
    }
}

/// Finds the line and column of each field that translation found wrong, in the files as they are now.
fn pinpoint<'p>(problems: impl Iterator<Item = &'p mut Problem>, text_of: &dyn Fn(&str) -> Option<String>) {
    let mut files: BTreeMap<Arc<str>, Vec<&mut Problem>> = BTreeMap::new();
    // Sources give exact places, but for objects as a whole.
    let is_vague = |problem: &&mut Problem| {
        problem.snippet.is_none() && problem.place.as_ref().is_some_and(|place| place.column == 1)
    };
    for problem in problems.filter(|problem| problem.object.is_some()).filter(is_vague) {
        let Some(file) = problem.place.as_ref().map(|place| Arc::clone(&place.file)) else { continue };
        files.entry(file).or_default().push(problem);
    }
    for (file, problems) in files {
        // A file that is gone, or was never one, leaves the place where the object begins.
        let Some(text) = text_of(&file) else { continue };
        let sought: Vec<Sought<'_>> = problems.iter().filter_map(|problem| sought(problem)).collect();
        let found = places(&file, &text, &sought);
        for (problem, found) in problems.into_iter().zip(found) {
            if let Some((place, snippet)) = found {
                (problem.place, problem.snippet) = (Some(place), snippet);
            }
        }
    }
}

fn sought(problem: &Problem) -> Option<Sought<'_>> {
    Some(Sought { object: problem.object.as_ref()?, line: problem.place.as_ref()?.line, path: &problem.path })
}

/// The first column of the line where an object begins; none of an object that no file has.
fn place(store::Origin { file, line }: store::Origin) -> Option<Place> {
    (line > 0).then_some(Place { file, line, column: 1 })
}

/// A problem that translation found, with the place where its object is written, and its path as it is written: translation counts the items that
/// are left.
fn placed(store: &Store, graph: &Graph, problem: &Arc<Problem>) -> Problem {
    let mut problem = (**problem).clone();
    let object = problem.object.as_ref().filter(|_| problem.path.contains('['));
    let object = object.and_then(|object| store.tables().get(graph, object));
    if let Some(written) = object.and_then(|object| object.meta().written_path(&problem.path)) {
        problem.path = written;
    }
    if problem.place.is_none() {
        problem.place = problem.object.as_ref().and_then(|object| store.origin(object)).and_then(place);
    }
    problem
}
