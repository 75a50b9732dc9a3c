//! Hostile clients of the xDS port.
