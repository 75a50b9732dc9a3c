//! What names a table: small numbers with types, and the bounds on keys and values.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::marker::PhantomData;

/// A key: cheap to clone (an `Arc`, numbers, or a struct of these), totally ordered.
///
/// The order of a group is the order of its keys, so whatever has to come sorted has its sort order in the key.
/// `Ord`, `Hash` and `Eq` (and `PartialEq` of values) must agree with each other and not panic: only transforms are
/// guarded.
pub trait Key: Clone + Ord + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Ord + Hash + Debug + Send + Sync + 'static> Key for T {}

/// A value: comparable, because a value equal to the previous one wakes nobody.
///
/// Large values belong in an `Arc<T>` with `T: Eq`, whose comparison begins with the pointer.
pub trait Value: PartialEq + Send + Sync + 'static {}

impl<T: PartialEq + Send + Sync + 'static> Value for T {}

/// Types that a handle stands for and does not hold.
pub(crate) type Types<T> = PhantomData<fn() -> T>;

/// The handle of a keyed table. It exists only after the table is declared, so that reads cannot form a cycle.
pub struct Table<K, V> {
    pub(crate) id: u16,
    types: Types<(K, V)>,
}

/// The handle of an index: groups `G` of the rows of a table with keys `K` and values `V`.
pub struct Index<G, K, V> {
    pub(crate) id: u16,
    types: Types<(G, K, V)>,
}

impl<K, V> Table<K, V> {
    pub(crate) fn new(id: u16) -> Self {
        Table { id, types: PhantomData }
    }
}

impl<G, K, V> Index<G, K, V> {
    pub(crate) fn new(id: u16) -> Self {
        Index { id, types: PhantomData }
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Table<K, V> {}

impl<K, V> Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.id)
    }
}

impl<G, K, V> Clone for Index<G, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G, K, V> Copy for Index<G, K, V> {}

impl<G, K, V> Debug for Index<G, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.id)
    }
}
