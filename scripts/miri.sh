#!/usr/bin/env bash
# The unit tests around unsafe code under Miri (nightly; portable instructions, as Miri knows no others): memory and frames, packets,
# vectors of the classifiers, of the flow table and of its templates. System calls (ports) and libraries in C are out of its reach.
# Usage: scripts/miri.sh
set -euo pipefail
cd "$(dirname "$0")/.."
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
rustup +nightly component add miri rust-src >/dev/null 2>&1
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" PROPTEST_CASES="${PROPTEST_CASES:-4}"
export CARGO_TARGET_DIR=${MIRI_TARGET_DIR:-$PWD/target/miri}

run() {
  local crate=$1
  shift
  echo "== $crate $*"
  cargo +nightly miri test -p "onefold-$crate" --lib -- -Zunstable-options --report-time "$@"
}

# what a library keeps of its frames is there until the process ends (FramePool::foreign)
kept=frames_of_a_library_go_back_to_it
run table frame huge_vec prefetch spsc --skip "$kept"
MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks" run table "$kept"
run packet refill pool packet::
run classify simd::
MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks" cargo +nightly miri test -p onefold-nf --lib --test rings
run engine simd:: flow::batch_drain flow::windows
echo "soak: table, packet, classify and engine: no undefined behaviour"
