//! Policies that guard and are not built.
