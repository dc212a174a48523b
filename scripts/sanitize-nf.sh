#!/usr/bin/env bash
# The NF library with both its sides under address sanitizer: the library and its tests in Rust (nightly), and the programs in C
# that they compile and launch. `make test` has the C side alone, with undefined behaviour besides, which Rust has no sanitizer for.
# Usage: scripts/sanitize-nf.sh
set -euo pipefail
cd "$(dirname "$0")/.."
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
target=$(rustc +nightly -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${SANITIZE_TARGET_DIR:-$PWD/target/sanitized}
# the standard library is as it is shipped: what it is given is looked at all the same
export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer"
# both sides have the same idea of shadow memory, and one runtime
export ONEFOLD_NF_CFLAGS="-fsanitize=address"
# rings of the kernel and regions that are shared with other processes are theirs, too, at the end
export ASAN_OPTIONS="detect_leaks=0"
cargo +nightly test --locked --target "$target" -p onefold-nf --lib --test rings --test storage
cargo +nightly test --locked --target "$target" -p onefold-nf-c
echo "soak: the NF library and programs in C: nothing found by address sanitizer"
