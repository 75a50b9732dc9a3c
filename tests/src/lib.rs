//! Golden corpus and end-to-end tests.
