//! What the fuzz targets and the program that writes their seeds share.

pub mod frames;
pub mod script;
