#!/usr/bin/env bash
# Runs every fuzz target for the given number of seconds; stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
command -v cargo-fuzz >/dev/null || { echo "installing cargo-fuzz"; cargo install cargo-fuzz --locked; }
for target in $(cargo +nightly fuzz list); do
  echo "== $target, $seconds s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=4096
done
