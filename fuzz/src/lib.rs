//! What the fuzz targets share.
#![cfg(feature = "translator")]

pub mod generate;
pub mod world;
