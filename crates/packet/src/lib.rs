//! Packets as every other crate sees them: buffer, annotations, header views, checksums.
