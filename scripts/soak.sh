#!/usr/bin/env bash
# Long runs, in named parts: scripts/soak.sh PART... | all | list. Each part takes at most 45 minutes on two cores
# (`live` as many as LIVE_MINUTES says, 60 if nobody says otherwise), goes on where
# it was when it is stopped and called again at the same commit, and leaves its row (commit, date, minutes, result) in docs/soak.md.
# Its output is in out/soak/PART.log. SOAK_AGAIN=1 does a part again that has been done at this commit.
set -uo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
minutes=45
doc=docs/soak.md
commit=$(git rev-parse --short=7 HEAD)
[ -z "$(git status --porcelain --untracked-files=no -- crates chains fuzz Cargo.lock)" ] || commit=$commit+
state=out/soak/$commit
mkdir -p "$state"

# What each part does: `part_NAME` runs it and fails if anything is found; `# NAME: ` says what it is.
# random-chains: 2,000 random chains, 5,000 packets each at every level and with a small flow table, and their proofs
part_random_chains() {
  SOAK_DIR=$PWD/$state/random-chains $CARGO test --profile quick --locked -p onefold --test cli-suite -- \
    random_chains:: --ignored --nocapture
}
# rules: lists of 10,000 rules with any mixture of verdicts, proved within a minute of processor time and 1 GiB each (in ISP edges 2 GiB)
part_rules() {
  $CARGO test --profile quick --locked -p onefold --test cli-suite -- --ignored --nocapture proved_lists:: classbench::
}
# rulesets: ten whole rulesets of different kinds, 100,000 packets each through Linux and the chain (root)
part_rulesets() {
  # as `make test` builds it
  $CARGO test --locked -p onefold $(pkg-config --exists libdpdk 2>/dev/null && echo --features onefold/dpdk) \
    --test cli-suite -- --ignored --nocapture rulesets::
}
# mutants: broken programs of the example chains, each refuted or proved to do the same
part_mutants() {
  MUTANTS=3 $CARGO test --locked -p onefold-verify --test verify-suite -- mutants:: --ignored --nocapture
}
# models: every element's model broken in turn; property tests must find it out
part_models() { scripts/mutate-models.sh; }
# states: what rewriters promise of their bindings, 10^8 events for each of fourteen configurations
part_states() { $CARGO run --profile quick --locked -p onefold-verify --example states -- "${STATES_EVENTS:-100000000}"; }
# routes: half a million routes, 10^7 look-ups against a naive one, changes under traffic; longest-prefix structures likewise
part_routes() {
  local table=${ONEFOLD_DATA:-../shared/data}/fib/dfz-half-public.prefixes.txt.gz
  [ -f "$table" ] || table=
  $CARGO run --profile quick --locked -p onefold-engine --example full_table $table &&
    $CARGO test --profile quick --locked -p onefold-classify --test routes -- --ignored
}
# xdp: a million packets for each example chain through its XDP programs (as root in the kernel) and the chain, and through the chain alone
part_xdp() {
  $CARGO build --profile quick --locked -p onefold || return 1
  local c n=0
  for c in chains/*/; do
    target/quick/onefold verify "$(basename "$c")" --xdp --packets "${XDP_PACKETS:-1000000}" --quiet || return 1
    n=$((n + 1))
  done
  echo "soak: $n chains, ${XDP_PACKETS:-1000000} packets each, 0 differences"
}
# properties: property tests of headers, models, rewriters and classifiers with many times their cases
part_properties() {
  PROPTEST_CASES=${PROPTEST_CASES:-1000} $CARGO test --locked \
    -p onefold-table -p onefold-packet -p onefold-classify -p onefold-nat -p onefold-element -p onefold-elements \
    -p onefold-synth -p onefold-engine -p onefold-nf
}
# days: thirty days on the virtual clock, hosts and neighbours that come and go: packets conserved, memory flat
part_days() { $CARGO test --profile quick --locked -p onefold --test cli-suite -- days:: --ignored --nocapture; }
# miri: unit tests around unsafe code under Miri (nightly)
part_miri() { scripts/miri.sh; }
# sanitizers: the NF library, in Rust and in C, under address sanitizer (nightly)
part_sanitizers() { scripts/sanitize-nf.sh; }
# reloads: a hundred reloads under TCP connections through the NAT, and live workers with 100,000 flows (root)
part_reloads() {
  $CARGO test --profile quick --locked -p onefold --test live -- --ignored --nocapture a_hundred_reloads &&
    $CARGO test --profile quick --locked -p onefold --test live -- workers::
}
# scaling: 20,000 flows at four fifths of the highest rate, a hundred reloads, groups that go from worker to worker (root)
part_scaling() {
  $CARGO test --profile quick --locked -p onefold --test live -- --ignored --nocapture load::
}
# schedule: scheduling policies on three functions of 120, 270 and 550 cycles on one core, in turn: figures (root)
part_schedule() {
  $CARGO test --profile quick --locked -p onefold --test scheduling -- --ignored --nocapture figures
}
# kills: a thousand processes of functions and black boxes killed at half load, another chain beside them that loses nothing (root)
part_kills() {
  # as `make test` builds it
  $CARGO test --locked -p onefold $(pkg-config --exists libdpdk 2>/dev/null && echo --features onefold/dpdk) \
    --test live -- --ignored --nocapture a_thousand_kills
}
# live: live traffic through the ISP edge for LIVE_MINUTES (60): flows come and go, reloads, rules, routes, groups that move (root)
part_live() {
  $CARGO test --profile quick --locked -p onefold --test live -- --ignored --nocapture hour::
}
# fuzz: every fuzz target with address sanitizer, two at a time
part_fuzz() { scripts/fuzz.sh "${FUZZ_SECONDS:-240}" "$state/fuzz"; }

parts() { sed -n 's/^# \([a-z-]*\): .*/\1/p' "$0"; }
says() { sed -n "s/^# $1: //p" "$0"; }

# Writes a part's row, in the order of the parts.
record() {
  local part=$1 took=$2 result=$3
  local row="| \`$part\` | $(says "$part") | $commit | $(date -u +%F) | $took | $result |" p
  {
    sed '/^|---/q' "$doc"
    for p in $(parts); do
      if [ "$p" = "$part" ]; then printf '%s\n' "$row"; else grep -F "| \`$p\` |" "$doc" || true; fi
    done
    sed '1,/^|---/d' "$doc" | sed '/^|/d'
  } >"$doc.new"
  mv "$doc.new" "$doc"
}

one() {
  local part=$1 began=$SECONDS status=0 log=out/soak/$1.log result limit=$minutes
  # and what it takes to build it
  [ "$part" != live ] || limit=$((${LIVE_MINUTES:-60} + 30))
  if [ -e "$state/$part.done" ] && [ -z "${SOAK_AGAIN:-}" ]; then
    echo "== $part: done at $commit already (SOAK_AGAIN=1 does it again)"
    return 0
  fi
  echo "== $part: $(says "$part")"
  export -f "part_$(tr - _ <<<"$part")"
  CARGO=$CARGO state=$state timeout --foreground "${limit}m" bash -c "part_$(tr - _ <<<"$part")" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  local took=$(((SECONDS - began + 59) / 60))
  case $status in
    0) result="nothing found" && touch "$state/$part.done" ;;
    124) result="not finished within $limit minutes" ;;
    130 | 143) exit "$status" ;;
    *) result="**failed** (status $status)" ;;
  esac
  # what a part says of itself in its last lines, if it does
  local told
  told=$(sed -n 's/^soak: //p' "$log" | tail -n 1)
  record "$part" "$took" "$result${told:+: $told}"
  echo "== $part: $result, $took minutes"
  return "$status"
}

failed=0
case ${1:-list} in
  list) for p in $(parts); do printf '%-14s %s\n' "$p" "$(says "$p")"; done ;;
  all) for p in $(parts); do one "$p" || failed=1; done ;;
  *)
    for p in "$@"; do
      parts | grep -qx -- "$p" || { echo "no part '$p'; there are: $(parts | tr '\n' ' ')" >&2; exit 2; }
      one "$p" || failed=1
    done
    ;;
esac
exit "$failed"
