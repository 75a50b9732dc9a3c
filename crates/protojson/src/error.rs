//! What is wrong with a message and where: the reason, the path to it, and its place where it came from text.

use std::fmt;

/// One thing wrong, at its place.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{}{reason}", .position.map(|at| format!("{at}: ")).unwrap_or_default(), .path.prefix())]
pub struct Error {
    /// Where in the message, with the names as they were written.
    pub path: Path,
    /// Where in the text, if it came from text.
    pub position: Option<Position>,
    /// What is wrong. In a box, because every result here carries room for it.
    pub reason: Box<Reason>,
}

/// A place in a text; both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Reason {
    /// No message of that name is known.
    #[error("unknown message type {name}{}", hint(.nearest))]
    UnknownMessage {
        /// The full name.
        name: String,
        /// The nearest known one, if one is near.
        nearest: Option<String>,
    },
    /// The message has no field of that name.
    #[error("{message} has no field {field}{}", hint(.nearest))]
    UnknownField {
        /// Full name of the message.
        message: String,
        /// The name as written.
        field: String,
        /// The nearest field, if one is near.
        nearest: Option<String>,
    },
    /// The enum has no value of that name.
    #[error("{enumeration} has no value {value}{}", hint(.nearest))]
    UnknownEnum {
        /// Full name of the enum.
        enumeration: String,
        /// The name as written.
        value: String,
        /// The nearest value, if one is near.
        nearest: Option<String>,
    },
    /// The field or key is given twice, for example under both of its names.
    #[error("given twice")]
    Twice,
    /// Two fields of which only one may be set are set.
    #[error("excludes {other}, which is set too: one of {oneof}")]
    Excludes {
        /// The other field.
        other: String,
        /// Name of the `oneof`.
        oneof: String,
    },
    /// A value of another kind.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// An `Any` without the name of its type.
    #[error("expected \"@type\" with the type of this message, for example type.googleapis.com/google.protobuf.Struct")]
    NoType,
    /// A `@type` that is a name alone.
    #[error("expected the URL of a type, did you mean type.googleapis.com/{0}")]
    NoSlash(String),
    /// A value that the JSON mapping cannot show (a time beyond the year 9999).
    #[error("{0} is out of range")]
    Range(&'static str),
    /// Bytes that are not the message they should be.
    #[error("invalid bytes: {0}")]
    Bytes(String),
    /// Nested deeper than [`crate::MAX_DEPTH`].
    #[error("nested deeper than {} levels", crate::MAX_DEPTH)]
    TooDeep,
    /// The text is neither YAML nor JSON.
    #[error("{0}")]
    Syntax(String),
}

impl Reason {
    /// The error that this reason is at a path.
    pub(crate) fn at(self, path: &Path) -> Error {
        Error { path: path.clone(), position: None, reason: Box::new(self) }
    }

    /// True if the name of the field is what is wrong, not its value.
    pub(crate) fn is_about_the_name(&self) -> bool {
        matches!(self, Self::UnknownField { .. } | Self::Twice | Self::Excludes { .. })
    }
}

/// The way from a message to a value inside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Into a field of this name, or the entry of a map with this key.
    Key(String),
    /// To an item of a list, counted from 0.
    Index(usize),
}

impl Path {
    /// The path and a colon, or nothing for the message itself.
    fn prefix(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{self}: ") }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(number) => write!(out, "[{number}]")?,
                Step::Key(name) if !is_plain(name) => write!(out, "[{name:?}]")?,
                Step::Key(name) if index == 0 => out.write_str(name)?,
                Step::Key(name) => write!(out, ".{name}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.line, self.column)
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '@')
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(", did you mean {name}")).unwrap_or_default()
}
