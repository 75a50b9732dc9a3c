//! The macro for open enums: a word that we do not know is kept as `Unknown`, so that it costs only the thing that
//! it belongs to.

/// Defines an enum over the words of an API field, with `Unknown` for every other word.
///
/// The first variant is the default. Gives `as_str`, `From<&str>`, `Display`, serde as a string.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)+
            /// A word that this version does not know.
            Unknown(Box<str>),
        }

        impl $name {
            /// The words that are known, in the order of the API's documentation.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word as it is written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::open::first([$(Self::$variant),+])
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Unknown(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::open::Word(std::marker::PhantomData))
            }
        }
    };
}
pub(crate) use open_enum;

/// The first of a fixed list, which the type proves not to be empty.
pub(crate) fn first<T, const N: usize>(variants: [T; N]) -> T {
    const { assert!(N > 0, "an open enum has at least one known word") };
    let mut variants = variants.into_iter();
    match variants.next() {
        Some(first) => first,
        None => unreachable!("checked above when the program is compiled"),
    }
}

/// Reads a word without allocating for the known ones.
pub(crate) struct Word<T>(pub(crate) std::marker::PhantomData<T>);

impl<T: for<'a> From<&'a str>> serde::de::Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<T, E> {
        Ok(T::from(word))
    }
}
