#!/usr/bin/env bash
# The inner loop, under two minutes after a change of one file: formatting, then lints and the tests beside the code of the crates
# that have changed files, the changed integration tests, and that everything else still compiles. `make test` has the rest.
# Compared with the last commit (or BASE=REVISION).
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
base=${BASE:-HEAD}
changed=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
[ -n "$changed" ] || { echo "nothing has changed since $base (BASE=REVISION compares with another one)"; exit 0; }

# The test program that has the tests of crates/$1/tests/$2.rs, and which of its tests these are.
target() {
  case $2 in
    suite) echo "$1-suite" ;;
    *) if grep -qs "^mod $2;" "crates/$1/tests/suite.rs"; then echo "$1-suite $2::"; else echo "$2"; fi ;;
  esac
}

crates=() tests=()
for dir in $(sed -n 's#^crates/\([^/]*\)/.*#\1#p' <<<"$changed" | sort -u); do
  [ -e "crates/$dir/Cargo.toml" ] || continue # it has gone
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' "crates/$dir/Cargo.toml" | head -n 1)
  crates+=(-p "$name")
  for t in $(sed -n "s#^crates/$dir/tests/\([^/]*\)\.rs\$#\1#p; s#^crates/$dir/tests/\([^/]*\)/.*#\1#p" <<<"$changed" | sort -u); do
    [ -e "crates/$dir/tests/$t.rs" ] || [ -e "crates/$dir/tests/$t/main.rs" ] || continue
    tests+=("$name:$(target "$dir" "$t")")
  done
done

# what of these has ports of DPDK, and all of them, where DPDK is installed
features=() all=()
if pkg-config --exists libdpdk 2>/dev/null; then
  all=(--features onefold/dpdk)
  for name in onefold onefold-port-dpdk; do
    [[ " ${crates[*]} " != *" $name "* ]] || features+=(--features "$name/dpdk")
  done
fi

$CARGO fmt --all --check
if [ ${#crates[@]} -gt 0 ]; then
  echo "== lints and tests of: ${crates[*]//-p/}"
  $CARGO clippy --locked "${crates[@]}" "${features[@]}" --all-targets -- -D warnings
  $CARGO check --locked --workspace "${all[@]}"
  kinds=()
  for dir in $(sed -n 's#^crates/\([^/]*\)/src/.*#\1#p' <<<"$changed" | sort -u); do
    [ ! -e "crates/$dir/src/lib.rs" ] || kinds=(--lib)
  done
  $CARGO test --locked "${crates[@]}" "${features[@]}" "${kinds[@]:---bins}" -q
  for t in "${tests[@]}"; do
    own=()
    [ "${t%%:*}" != onefold ] || own=("${all[@]}")
    read -r program tests_of <<<"${t#*:}"
    # shellcheck disable=SC2086
    $CARGO test --locked -p "${t%%:*}" "${own[@]}" --test "$program" -q -- $tests_of
  done
fi
# promises and the tests that they name
if grep -q '^SPECIFICATION.md$\|/tests/' <<<"$changed"; then
  $CARGO test --locked -p onefold "${all[@]}" --test cli-suite -q -- specification::
fi
echo "checked: $(wc -l <<<"$changed") changed files since $base"
