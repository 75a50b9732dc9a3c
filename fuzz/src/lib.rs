//! What the fuzz targets share.

pub mod generate;
pub mod world;
