//! `chancery status`: asks a running Chancery and prints what became of every object.

mod table;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use api::Kind;
use api::problem::printable;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use serde_json::Value;

use super::columns::Screen;
use super::running::{CHOICE, Replica, Running, RunningArgs};
use super::{Format, Outcome, WrongUsage};

/// Arguments of `chancery status`.
#[derive(Debug, Args)]
#[command(after_help = CHOICE)]
pub(crate) struct StatusArgs {
    /// Only this kind, or this object (`httproute/shop`, `httproute/default/shop`), or `problems`
    #[arg(value_parser = KindWord)]
    kind: Option<String>,
    /// Only the object of this name, with or without its namespace: `shop` or `default/shop`
    name: Option<String>,
    /// Of all namespaces, which is so without --namespace
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    running: RunningArgs,
    /// How to print
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Stay, and print again whenever something changed
    #[arg(long, short)]
    watch: bool,
}

/// A word for a kind. The plurals are offered as possible values; the kind itself and any case are understood as well.
#[derive(Clone)]
struct KindWord;

impl TypedValueParser for KindWord {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, word: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, word)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let kinds = Kind::ALL.iter().map(|kind| kind.plural());
        Some(Box::new(kinds.chain([PROBLEMS]).map(PossibleValue::new)))
    }
}

/// Which kinds there are instead.
fn no_kind(kind: &str) -> String {
    let names: Vec<String> = Kind::ALL.iter().map(|kind| kind.name().to_lowercase()).collect();
    let near = api::nearest(&kind.to_lowercase(), names.iter().map(String::as_str));
    let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("there is no kind {kind}{meant}; there are {}, and {PROBLEMS}", kinds())
}

/// The requested objects.
#[derive(Default)]
struct Selection {
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    /// Problems are requested, and no objects.
    problems: bool,
}

impl Selection {
    /// Reads `KIND`, `KIND NAME` and `KIND/NAME`.
    fn of(args: &StatusArgs) -> Result<Self, WrongUsage> {
        let word = args.kind.as_deref();
        let (kind, inside) = match word.and_then(|word| word.split_once('/')) {
            Some((kind, name)) => (Some(kind), Some(name)),
            None => (word, None),
        };
        let is_problems = |kind: &str| kind.eq_ignore_ascii_case(PROBLEMS);
        let problems = kind.is_some_and(is_problems);
        WrongUsage::unless(inside.is_none() || args.name.is_none(), || {
            format!("{} names an object: it takes no further name", word.unwrap_or_default())
        })?;
        WrongUsage::unless(inside != Some(""), || format!("{}: no name behind the slash", word.unwrap_or_default()))?;
        let name = args.name.as_deref().or(inside).map(str::to_owned);
        WrongUsage::unless(!problems || name.is_none(), || {
            format!("`status {PROBLEMS}` shows all of them: it takes no name")
        })?;
        if let Some(kind) = kind.filter(|kind| !is_problems(kind)) {
            let known = Kind::ALL.iter().any(|known| is_named(kind, *known));
            WrongUsage::unless(known, || no_kind(kind))?;
        }
        let kind = kind.filter(|_| !problems).map(str::to_owned);
        Ok(Self { kind, name, namespace: None, problems })
    }

    /// The same in the namespace of an option, which is one name's own where it has one. What belongs to no namespace is in each.
    fn within(self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(str::to_owned), ..self }
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }
}

/// Prints once, or for as long as the process runs; exit code 1 if an object is not accepted, a problem is an error, or the object
/// that was asked for is not there.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<Outcome> {
    let selection = Selection::of(args)?;
    let running = Running::find(&args.running)?;
    let selection = selection.within(running.namespace());
    let mut asked = Asked::default();
    let mut report = asked.ask(&running)?;
    let mut last = String::new();
    loop {
        let shown = Shown::select(&report, &selection);
        let text = shown.print(args.output)?;
        let same = std::mem::replace(&mut last, text) == last;
        if same && args.watch {
            report = asked.ask_until_answered(&running);
            continue;
        }
        if args.watch && matches!(args.output, Format::Table | Format::Wide) {
            begin_again()?;
        }
        write!(std::io::stdout(), "{last}")?;
        std::io::stdout().flush()?;
        if !args.watch {
            return Ok(if shown.is_fine() { Outcome::Fine } else { Outcome::Problems });
        }
        report = asked.ask_until_answered(&running);
    }
}

/// Begins another table of a watch: a terminal shows one at a time.
pub(super) fn begin_again() -> std::io::Result<()> {
    if std::io::stdout().is_terminal() {
        return write!(std::io::stdout(), "\x1b[H\x1b[2J");
    }
    writeln!(std::io::stdout(), "--- {}", crate::serve::now())
}

/// Who was asked last, and which of its revisions was seen.
#[derive(Default)]
struct Asked {
    replica: Option<Replica>,
    revision: u64,
}

impl Asked {
    /// The report; waits until it differs from the one that was seen last.
    fn ask(&mut self, running: &Running) -> anyhow::Result<Value> {
        let replica = running.leader()?;
        // Another process counts from its own beginning.
        let seen = if self.replica.as_ref() == Some(&replica) { self.revision } else { 0 };
        let text = running.get(&replica, &format!("/status?after={seen}"))?;
        let report: Value =
            serde_json::from_slice(&text).context("the admin API answered something that is no report")?;
        self.revision = report.get("revision").and_then(Value::as_u64).unwrap_or(seen);
        self.replica = Some(replica);
        Ok(report)
    }

    /// The next report for who stays. A process that ends may be started again, and then counts from the beginning.
    fn ask_until_answered(&mut self, running: &Running) -> Value {
        let mut told = false;
        loop {
            match self.ask(running) {
                Ok(report) => return report,
                Err(error) if !told => {
                    let _nobody_reads = writeln!(std::io::stderr(), "{error}; waiting for it");
                    told = true;
                }
                Err(_) => {}
            }
            self.revision = 0;
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

/// How often a process that does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The word that asks for problems in place of a kind.
const PROBLEMS: &str = "problems";

fn kinds() -> String {
    Kind::ALL.iter().map(|kind| kind.name().to_ascii_lowercase()).collect::<Vec<_>>().join(", ")
}

/// The short names that the kinds' definitions give, as `kubectl` takes them, and the one that people expect of a Gateway.
const SHORT: &[(&str, Kind)] = &[
    ("gc", Kind::GatewayClass),
    ("gtw", Kind::Gateway),
    ("gw", Kind::Gateway),
    ("lset", Kind::ListenerSet),
    ("btlspolicy", Kind::BackendTlsPolicy),
    ("refgrant", Kind::ReferenceGrant),
    ("xbtrafficpolicy", Kind::XBackendTrafficPolicy),
    ("svc", Kind::Service),
    ("cm", Kind::ConfigMap),
    ("ns", Kind::Namespace),
    ("po", Kind::Pod),
];

/// Whether a word names a kind: by name, plural or short name, in any case.
fn is_named(word: &str, kind: Kind) -> bool {
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    is(kind.name()) || is(kind.plural()) || SHORT.iter().any(|(short, of)| *of == kind && is(short))
}

/// What is left of a report after the user's selection.
struct Shown<'a> {
    objects: Vec<&'a Value>,
    /// Objects that cannot be read and so have no status.
    unread: Vec<&'a Value>,
    problems: Vec<&'a Value>,
    earlier: table::Earlier<'a>,
    closed: table::Closed,
    only_problems: bool,
    /// What is said of an object that was asked for by name and is not there.
    missing: Option<String>,
    /// Nothing of what the sources say is in force yet.
    waits: bool,
}

/// In place of the table while not every source was read.
const WAITS: &str = "no statuses yet: not everything could be read, and what was served before stays in force until then (why: \
                     `chancery status problems`)\n";

impl<'a> Shown<'a> {
    fn select(report: &'a Value, args: &Selection) -> Self {
        let list = |name: &str| report.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let only_problems = args.problems;
        let objects: Vec<_> = list("objects").iter().filter(|object| !only_problems && wanted(object, args)).collect();
        let unread = list("unread").iter().filter(|object| !only_problems && wanted(object, args)).collect();
        let problems: Vec<_> = list("problems").iter().filter(|problem| is_about(problem, args)).collect();
        let earlier = table::Earlier::of(list("problems"));
        let closed = table::closed(list("objects"));
        let waits = report.get("waits").and_then(Value::as_bool) == Some(true);
        let missing =
            args.name.as_deref().filter(|_| objects.is_empty() && !waits).map(|name| match problems.is_empty() {
                true => missing(list("objects"), args, name),
                false => format!("what is written of {name} has no status; why is told below\n"),
            });
        Self { objects, unread, problems, earlier, closed, only_problems, missing, waits }
    }

    fn print(&self, format: Format) -> anyhow::Result<String> {
        let data = if self.only_problems { &self.problems } else { &self.objects };
        Ok(match format {
            Format::Json => format!("{}\n", serde_json::to_string_pretty(data)?),
            // No document would be no answer: an empty list is one.
            Format::Yaml if data.is_empty() => "[]\n".to_owned(),
            Format::Yaml => crate::yaml::documents(data.iter().copied()),
            Format::Name => self.names(),
            Format::Table | Format::Wide => {
                let mut text = String::new();
                if let Some(missing) = &self.missing {
                    text.push_str(missing);
                } else if !self.only_problems && self.waits {
                    text.push_str(WAITS);
                } else if !self.only_problems {
                    let wide = format == Format::Wide;
                    let screen = Screen::of_stdout();
                    let look = table::Look { wide, screen: if wide { screen.uncut() } else { screen } };
                    text.push_str(&table::objects(&self.all(), &self.earlier, &self.closed, look));
                }
                text.push_str(&table::problems(&self.problems));
                if self.only_problems && self.problems.is_empty() {
                    text.push_str("no problems\n");
                }
                text
            }
        })
    }

    /// Each object as this verb takes it, in the order of the table.
    fn names(&self) -> String {
        let text = |object: &Value| object.get("kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let name = |object: &&Value| format!("{}/{}\n", text(object), table::full_name(object));
        match self.only_problems {
            true => self.about().into_iter().map(|object| format!("{object}\n")).collect(),
            false => self.all().iter().map(name).map(|name| printable(name.trim_end()).into_owned() + "\n").collect(),
        }
    }

    /// The objects that problems are about, each once.
    fn about(&self) -> BTreeSet<String> {
        let objects = self.problems.iter().filter_map(|problem| problem.get("object").and_then(Value::as_str));
        let name = |object: &str| {
            let (kind, name) = object.split_once(' ').unwrap_or(("", object));
            printable(&format!("{}/{name}", kind.to_lowercase())).into_owned()
        };
        objects.map(name).collect()
    }

    /// All that is in the table, objects of a kind together.
    fn all(&self) -> Vec<&'a Value> {
        let mut all = self.objects.clone();
        for object in &self.unread {
            let kin = all.iter().rposition(|other| other.get("kind") == object.get("kind"));
            all.insert(kin.map_or(all.len(), |last| last + 1), object);
        }
        all
    }

    fn is_fine(&self) -> bool {
        let errors =
            self.problems.iter().any(|problem| problem.get("severity").and_then(Value::as_str) == Some("error"));
        self.missing.is_none()
            && !self.waits
            && !errors
            && self.unread.is_empty()
            && self.objects.iter().all(|object| table::is_fine(object) && self.earlier.reason(object).is_none())
    }
}

/// Which names there are instead of one that nothing has.
fn missing(objects: &[Value], args: &Selection, name: &str) -> String {
    let kind = args.kind.as_deref().unwrap_or("object");
    let of_kind = objects.iter().filter(|object| is_of_kind(object, args));
    let names = || of_kind.clone().map(table::full_name);
    let listed = match names().count() {
        0 => "there is none with a status".to_owned(),
        count if count > MAX_NAMES => format!("there are {count}; `chancery status {kind}` lists them"),
        _ => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("no {kind} is called {name}; {listed}\n")
}

/// Names that are listed in place of one that is not there; of more of them their number is told.
const MAX_NAMES: usize = 10;

/// True if the object is of the kind that was asked for.
fn is_of_kind(object: &Value, args: &Selection) -> bool {
    is_asked_for(object.get("kind").and_then(Value::as_str).unwrap_or_default(), args)
}

/// The same of the kind's name.
fn is_asked_for(kind: &str, args: &Selection) -> bool {
    let fits = |word: &str| Kind::ALL.iter().any(|one| one.name() == kind && is_named(word, *one));
    args.kind.as_deref().is_none_or(fits)
}

/// Whether a problem is about what was asked for: everything, or one object by its name.
fn is_about(problem: &Value, args: &Selection) -> bool {
    let object = problem.get("object").and_then(Value::as_str).unwrap_or_default();
    let split = object.split_once(' ');
    let namespace = split.and_then(|(_, name)| name.split_once('/')).map(|(namespace, _)| namespace);
    let Some(name) = args.name.as_deref() else {
        return args.kind.is_none() && args.has_namespace(namespace.unwrap_or_default());
    };
    let Some((kind, full_name)) = split.filter(|_| args.has_namespace(namespace.unwrap_or_default())) else {
        return false;
    };
    let is_it = full_name == name || full_name.rsplit_once('/').is_some_and(|(_, short)| short == name);
    is_it && is_asked_for(kind, args)
}

/// True if the object is of the kind and name that were asked for.
fn wanted(object: &Value, args: &Selection) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name_fits = args.name.as_deref().is_none_or(|name| match name.split_once('/') {
        Some((namespace, name)) => namespace == text("/metadata/namespace") && name == text("/metadata/name"),
        None => name == text("/metadata/name"),
    });
    is_of_kind(object, args) && name_fits && args.has_namespace(text("/metadata/namespace"))
}
