#!/usr/bin/env bash
# Runs every fuzz target for the given number of seconds, with address sanitizer, as many at a time as there are cores; a finding
# ends its target and fails the run. With a FOLDER, targets that have been run (FOLDER/TARGET) are left out, so that a run that was
# stopped goes on.
# Usage: scripts/fuzz.sh [SECONDS] [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
done_in=${2:-$(mktemp -d)}
mkdir -p "$done_in" out/fuzz
command -v cargo-fuzz >/dev/null || { echo "installing cargo-fuzz"; cargo install cargo-fuzz --locked; }
rustup toolchain list | grep -q '^nightly' || { echo "installing the nightly tool chain"; rustup toolchain install nightly --profile minimal; }
cargo run --quiet --manifest-path fuzz/Cargo.toml --example seeds -- fuzz/corpus
cargo +nightly fuzz build

target() {
  local target=$1 seconds=$2 done_in=$3 log=out/fuzz/$1.log
  [ ! -e "$done_in/$target" ] || { echo "== $target: done already"; return 0; }
  mkdir -p "fuzz/corpus/$target"
  local inputs=("fuzz/corpus/$target")
  case $target in
    click_parser) inputs+=(crates/click/tests/cases) ;;
    chain_file) inputs+=(chains) ;;
  esac
  # a region with frames is there until its process ends: some 30 kB for each input
  local each=$seconds left=$seconds
  if [ "$target" = nf_region ] && [ "$each" -gt 100 ]; then each=100; fi
  local options=(-max_len=4096 -max_total_time="$each" -rss_limit_mb=4096 -timeout=20)
  if [ -f "fuzz/$target.dict" ]; then options+=(-dict="fuzz/$target.dict"); fi
  echo "== $target, $seconds s"
  local fine=true
  : >"$log"
  while [ "$left" -gt 0 ] && $fine; do
    cargo +nightly fuzz run "$target" "${inputs[@]}" -- "${options[@]}" >>"$log" 2>&1 || fine=false
    left=$((left - each))
  done
  if $fine; then
    touch "$done_in/$target"
    echo "== $target: nothing found; $(grep -E '^Done [0-9]+ runs' "$log" | tail -n 1)"
  else
    echo "== $target: FAILED; $log ends with"
    tail -n 30 "$log"
    return 1
  fi
}
export -f target
cargo +nightly fuzz list | xargs -P "$(nproc)" -I{} bash -c 'target "$@"' _ {} "$seconds" "$done_in"
