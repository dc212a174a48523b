#!/usr/bin/env bash
# Lints and runs all tests of the workspace, to the end whatever fails, and closes with what a reader wants to know: the
# slowest test binaries, the long runs that were left to `make soak`, every test that skipped and why, and one line of
# totals. ONEFOLD_NO_SKIP=1: a test that skips fails. Where DPDK is installed, everything is built with its ports; that
# all is well without them is checked, too, and what there is in their place is tested in either case.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-out}
mkdir -p "$out"
log=$out/test.log
export ONEFOLD_SKIPS=$PWD/$out/skips.txt
rm -f "$ONEFOLD_SKIPS"

cargo=${CARGO:-cargo}
features=()
! pkg-config --exists libdpdk 2>/dev/null || features=(--features onefold/dpdk)
run() { "$cargo" test --workspace --locked --no-fail-fast "${features[@]}" "$@" 2>&1; }

# Names of the test programs of these crates, all but that of live traffic.
targets() {
  local c t
  for c in "$@"; do
    if grep -q '^autotests = false' "$c/Cargo.toml"; then
      sed -n '/^\[\[test\]\]/,/^$/s/^name = "\(.*\)"/\1/p' "$c/Cargo.toml"
      continue
    fi
    for t in "$c"/tests/*.rs "$c"/tests/*/main.rs; do
      case $t in
        *'*'*) ;;
        */main.rs) basename "$(dirname "$t")" ;;
        *) basename "$t" .rs ;;
      esac
    done
  done | sort -u | grep -vx live
}

# One pass lints and compiles: clippy's driver or rustc itself, as scripts/compile.sh chooses, for the crates of this
# workspace. It tells what `make lint` tells, and leaves the code that the tests then execute; to check all crates first
# and to compile them afterwards takes two minutes more. Where there is no clippy, the compiler alone is used.
# CLIPPY_ARGS is what `cargo clippy -- -D warnings` hands to its driver: arguments, with clippy's own separator behind
# each.
CLIPPY_DRIVER=$(rustup which clippy-driver 2>/dev/null || command -v clippy-driver || true)
if [ -n "$CLIPPY_DRIVER" ]; then
  export CLIPPY_DRIVER RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/compile.sh
  export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
else
  echo "no clippy: nothing is linted" >&2
fi

# Three streams beside each other, as each waits for a part of its time: tests of live traffic, what crates test, what
# the command line tests. Cargo runs all of it, with one selection of packages, so that nothing is built twice.
everything() {
  local status=0 first packages streams=()
  scripts/packages.sh test >"$out/packages.log" 2>&1 &
  packages=$!
  # That all is well without DPDK; before the tests, which want the program that has it. With what tests ask of the
  # elements: otherwise these, and all that depends on them, would be compiled once more for the tests.
  [ ${#features[@]} -eq 0 ] ||
    WITHOUT_DPDK=1 "$cargo" build --workspace --lib --bins --locked --features onefold-elements/testing 2>&1 || return
  run --all-targets --no-run || return
  wait "$packages"
  cat "$out/packages.log"
  # with process groups of their own, which Ctrl-C can be passed on to
  set -m
  run --test=live >"$out/live.log" &
  streams+=($!)
  first=$(targets $(find crates -name Cargo.toml -not -path 'crates/cli/*' -printf '%h\n'))
  # shellcheck disable=SC2086
  { run --lib --bins $(sed 's/^/--test=/' <<<"$first") && run --doc; } >"$out/crates.log" &
  streams+=($!)
  set +m
  trap 'for p in "${streams[@]}"; do kill -INT -- -"$p" 2>/dev/null; done; exit 130' INT TERM
  # shellcheck disable=SC2046
  run $(targets crates/cli | sed 's/^/--test=/') || status=$?
  for p in "${streams[@]}"; do wait "$p" || status=$?; done
  cat "$out/crates.log" "$out/live.log"
  return "$status"
}

if [ $# -gt 0 ]; then
  run "$@" | tee "$log"
else
  everything | tee "$log"
fi
status=${PIPESTATUS[0]}

echo
echo "== the slowest test binaries (seconds of wall time)"
awk '/^ +(Running|Doc-tests) /{name=$0; sub(/^ +/, "", name); sub(/ \(target.*/, "", name)}
     /^test result:.*finished in/{t=$NF; sub(/s$/, "", t); printf "%8.1f  %s\n", t, name}' "$log" | sort -rn | head -n 8

total() { awk -v what="$1" '/^test result:/{for (i = 2; i <= NF; i++) if ($i == what ";") n += $(i - 1)} END{print n + 0}' "$log"; }
echo
echo "== long runs, left to 'make soak' (docs/soak.md)"
grep -hE '^test .* ignored(,|$)' "$log" | sed 's/^test /  /; s/ \.\.\. ignored,*/:/' | sort -u

skipped=0
if [ -s "$ONEFOLD_SKIPS" ]; then
  skipped=$(sort -u "$ONEFOLD_SKIPS" | cut -d: -f1-4 | sort -u | wc -l)
  echo
  echo "== skipped here: these tests did not do their work"
  sort -u "$ONEFOLD_SKIPS" | sed 's/^/  /'
fi
failed=$(grep -hE '^test .* FAILED$' "$log" | sort -u)
if [ -n "$failed" ]; then
  echo
  echo "== failed"
  printf '%s\n' "$failed" | sed 's/^test /  /; s/ \.\.\. FAILED//'
fi
echo
# a test that skips is counted as passed by the runner
echo "$(($(total passed) - skipped)) passed, $(total failed) failed, $skipped skipped"
exit "$status"
