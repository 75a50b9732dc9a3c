//! Hostile clients of the health and admin ports.
