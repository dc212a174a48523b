//! A network function in Rust: what `mirror.c` is in C.

use onefold_nf::native::{Native, NativeError};
use std::time::Duration;

fn main() -> Result<(), NativeError> {
    let mut place = Native::from_environment()?;
    let mut batch = Vec::new();
    while !place.is_over() {
        if place.read(&mut batch, 32)? == 0 {
            place.wait(Duration::from_millis(100))?;
        }
        for mut p in batch.drain(..) {
            if let Some(macs) = p.data_mut().first_chunk_mut::<12>() {
                macs.rotate_left(6);
                let to = 1 - p.port.min(1);
                place.write(p, to);
            }
        }
    }
    place.end()
}
