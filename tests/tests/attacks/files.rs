//! Hostile files, links and devices in a folder that is read.
