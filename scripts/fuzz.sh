#!/usr/bin/env bash
# Runs every fuzz target for the given number of seconds; stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
command -v cargo-fuzz >/dev/null || { echo "installing cargo-fuzz"; cargo install cargo-fuzz --locked; }
cargo run --quiet --manifest-path fuzz/Cargo.toml --example seeds -- fuzz/corpus
for target in $(cargo +nightly fuzz list); do
  echo "== $target, $seconds s"
  mkdir -p "fuzz/corpus/$target"
  inputs=("fuzz/corpus/$target")
  case $target in
    click_parser) inputs+=(crates/click/tests/cases) ;;
    chain_file) inputs+=(chains) ;;
  esac
  options=(-max_len=4096 -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20)
  if [ -f "fuzz/$target.dict" ]; then options+=(-dict="fuzz/$target.dict"); fi
  cargo +nightly fuzz run "$target" "${inputs[@]}" -- "${options[@]}"
done
