//! Spellings of a path that miss a guarded route.
