//! What `onefold bench` has measured, in words and pictures.

pub mod text;
