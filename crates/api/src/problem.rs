//! `Problem`: one thing that is wrong with what a user wrote, and where.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;

/// One thing wrong. Problems are output: they become conditions, lines of `chancery status` and diagnostics.
///
/// Problems sort by object, path, severity and text, so that lists of them are the same on every run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Problem {
    /// The object that it is about; none where a text could not be read as an object.
    pub object: Option<ObjectKey>,
    /// The field inside the object, empty for the object as a whole.
    pub path: FieldPath,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong and what would be right: lower case, no full stop at the end.
    pub text: Box<str>,
    /// Where it is written; none for objects that do not come from text.
    pub place: Option<Place>,
    /// The line of `place` as written; never of a Secret.
    pub snippet: Option<Box<str>>,
    /// What the field names. Whoever shows the problem can say which object may be meant where there is none of that name.
    #[serde(skip)]
    pub refers_to: Option<ObjectKey>,
    /// An earlier form of the object stays in force because of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
    /// The reason where it refuses what an author asks for.
    #[serde(skip)]
    pub refusal: Option<RefusalKind>,
}

/// The reason for which something that an author asks for is refused: a rule of the operator, or a bound. Metrics count problems by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// It leads to Chancery or to a proxy's own ports.
    OwnAddress,
    /// It leads to a link-local address or a metadata service.
    LinkLocal,
    /// A raw resource or patch uses a power over the proxy's machine.
    RawPower,
    /// A socket of the file system.
    Socket,
    /// An argument of Envoy.
    Argument,
    /// A ServiceAccount of proxies.
    ServiceAccount,
    /// A field of the objects of proxies.
    PodField,
    /// A policy that guards with fields which are not built.
    Policy,
    /// A link out of the folders that are read.
    Link,
    /// Something that is no regular file.
    SpecialFile,
    /// A file that is too large.
    LargeFile,
}

impl RefusalKind {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::OwnAddress,
        Self::LinkLocal,
        Self::RawPower,
        Self::Socket,
        Self::Argument,
        Self::ServiceAccount,
        Self::PodField,
        Self::Policy,
        Self::Link,
        Self::SpecialFile,
        Self::LargeFile,
    ];

    /// Returns its word in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OwnAddress => "own_address",
            Self::LinkLocal => "link_local",
            Self::RawPower => "raw_power",
            Self::Socket => "socket",
            Self::Argument => "argument",
            Self::ServiceAccount => "service_account",
            Self::PodField => "pod_field",
            Self::Policy => "policy",
            Self::Link => "link",
            Self::SpecialFile => "special_file",
            Self::LargeFile => "large_file",
        }
    }
}

impl Problem {
    /// A problem of an object, without a place in a text.
    #[must_use]
    pub fn of(object: &ObjectKey, path: impl Into<FieldPath>, severity: Severity, text: impl Into<Box<str>>) -> Self {
        Self { object: Some(object.clone()), path: path.into(), ..Self::unbound(severity, text) }
    }

    /// A problem of no object.
    #[must_use]
    pub fn unbound(severity: Severity, text: impl Into<Box<str>>) -> Self {
        let (path, text) = (FieldPath::default(), text.into());
        let (object, place, snippet, refers_to, refusal) = (None, None, None, None, None);
        Self { object, path, severity, text, place, snippet, refers_to, earlier: false, refusal }
    }

    /// The same as a refusal for this reason, if there is one.
    #[must_use]
    pub fn refusing(self, refusal: Option<RefusalKind>) -> Self {
        Self { refusal, ..self }
    }
}

impl Problem {
    /// One line for a log, which has a column for the severity: as [`Display`](fmt::Display) without it.
    #[must_use]
    pub fn log_line(&self) -> String {
        let mut line = String::new();
        let _infallible = self.write(&mut line, None);
        line
    }

    fn write(&self, out: &mut impl fmt::Write, severity: Option<Severity>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(out, "{}: ", printable(&place.to_string()))?;
        }
        if let Some(severity) = severity {
            write!(out, "{severity}: ")?;
        }
        if let Some(object) = &self.object {
            write!(out, "{}: ", printable(&object.to_string()))?;
        }
        if !self.path.is_empty() {
            write!(out, "{}: ", printable(&self.path))?;
        }
        out.write_str(&printable(&self.text))
    }
}

impl fmt::Display for Problem {
    /// One line: `file:line:column: severity: object: path: text`, each part only if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Some(self.severity))
    }
}

/// A name of a megabyte helps nobody find its place.
const MAX_SHOWN: usize = 2_000;

/// A text of others for a terminal or a log: characters that control it, or turn the direction of writing, are shown by one
/// character each in their place, so that columns stay. What is longer than 2,000 bytes ends with an ellipsis.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.len() > MAX_SHOWN {
        let end = text.floor_char_boundary(MAX_SHOWN);
        return Cow::Owned(format!("{}…", printable(text.get(..end).unwrap_or_default())));
    }
    let shown = |character: char| match character {
        '\t' => '\t',
        // Unicode has pictures of the first 32, U+2400 onwards.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        other => other,
    };
    if text.chars().all(|character| shown(character) == character) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(shown).collect())
    }
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that was written has no effect or a worse one than meant.
    Error,
    /// Something is ignored or suspicious; the rest works as written.
    Warning,
    /// Worth knowing, nothing is wrong.
    Note,
}

impl Severity {
    /// The word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A field inside an object, for example `spec.rules[0].matches[1].path`. Empty: the object itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct FieldPath(Box<str>);

impl FieldPath {
    /// The path of a field below this one.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        if self.0.is_empty() { name.into() } else { format!("{}.{name}", self.0).into() }
    }

    /// The path of an item of the list at this path, counted from 0.
    #[must_use]
    pub fn item(&self, index: usize) -> Self {
        format!("{}[{index}]", self.0).into()
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for FieldPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self(path.into())
    }
}

impl From<String> for FieldPath {
    fn from(path: String) -> Self {
        Self(path.into())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in a text. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Place {
    /// The file as the user named it, or what stands for it (`<stdin>`).
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a part of an object (a rule, a match, a listener) cannot be used although the object can.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// The field at fault.
    pub path: FieldPath,
    /// What is wrong with it, as in the [`Problem`] of the same path.
    pub text: Box<str>,
}

impl fmt::Display for Fault {
    /// `path: text`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// What checking found, for [`crate::resource::Spec::mark`].
#[derive(Debug, Default)]
pub struct UnitFaults {
    /// The faults inside units.
    pub(crate) faults: Vec<(Unit, Fault)>,
    /// Fields of the spec that are ignored.
    pub(crate) ignored: Vec<Fault>,
    /// Fields that guard and are not built.
    pub(crate) guards: Vec<FieldPath>,
}

impl UnitFaults {
    /// The first fault, for kinds whose spec fails as a whole.
    pub(crate) fn first(faults: Vec<(Unit, Fault)>) -> Option<Box<Fault>> {
        faults.into_iter().next().map(|(_, fault)| Box::new(fault))
    }
}

/// A part of an object that can be unusable alone: a listener, a rule, a match of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    /// Which listener or rule, from 0.
    pub(crate) item: usize,
    /// Which match of the rule, from 0.
    pub(crate) inner: Option<usize>,
}

impl Unit {
    /// The spec as a whole.
    pub(crate) const WHOLE: Self = Self { item: usize::MAX, inner: None };
}
