#!/usr/bin/env bash
# Minimizes what the fuzz targets have found (fuzz/corpus) and keeps some of each, of all lengths, for `make test`
# (fuzz/corpus.tar.gz). Usage: scripts/keep-corpus.sh [INPUTS OF packet_path [INPUTS OF EACH OTHER TARGET]]
set -euo pipefail
cd "$(dirname "$0")/.."
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
for target in $(cargo +nightly fuzz list); do
  mkdir -p "fuzz/corpus/$target" "$kept/$target"
  most=${2:-300}
  [ "$target" = packet_path ] && most=${1:-1000}
  cargo +nightly fuzz cmin "$target" "fuzz/corpus/$target" -- -max_len=4096 -rss_limit_mb=4096 -timeout=1200
  find "fuzz/corpus/$target" -type f -printf '%s %p\n' | sort -n | cut -d' ' -f2- \
    | awk -v most="$most" '{ a[NR] = $0 } END { step = NR > most ? NR / most : 1; for (i = 1; i <= NR; i += step) print a[int(i)] }' \
    | xargs -r -d '\n' cp -t "$kept/$target"
done
# the same bytes whenever the inputs are the same
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2020-01-01 00:00Z' -C "$kept" -cf - . | gzip -9n > fuzz/corpus.tar.gz
du -h fuzz/corpus.tar.gz
