#!/usr/bin/env bash
# Measures the example chains and all experiments, and writes docs/benchmarks.md; pages with plots go to the output folder.
# Usage: scripts/bench.sh BINARY FOLDER [SECONDS_OF_A_SLICE]
# What stands between the lines `<!-- peer -->` and `<!-- /peer -->` of the document is kept: the comparison with FastClick needs FastClick.
set -euo pipefail
bin=$1
out=$2
seconds=${3:-0.1}
doc=docs/benchmarks.md
mkdir -p "$out"
parts=()

# NAME TITLE TEXT ARGUMENTS...
section() {
  local name=$1 title=$2 text=$3
  shift 3
  echo "== $title"
  "$bin" bench "$@" --mode all --seconds "$seconds" --repeats 5 --html "$out/bench-$name.html" --markdown "$out/bench-$name.md"
  {
    printf '\n## %s\n\n%s\n\n```sh\nonefold bench %s --mode all --seconds %s --repeats 5\n```\n\n' "$title" "$text" "$*" "$seconds"
    # the machine is said once
    sed '/^Machine: /d' "$out/bench-$name.md" | sed '1{/^$/d}'
  } >"$out/bench-$name.part"
  parts+=("$out/bench-$name.part")
}

# NAME TITLE
experiment() {
  local name=$1 title=$2 more=()
  echo "== $title"
  # a hundred thousand rules take minutes to build
  [ "$name" != rules ] || more=(--at 10,100,1000,10000)
  "$bin" bench --experiment "$name" "${more[@]}" --seconds "$seconds" --html "$out/bench-$name.html" --section "$out/bench-$name.md" >"$out/bench-$name.txt"
  {
    printf '\n## %s\n\n```sh\nonefold bench --experiment %s --html %s.html\n```\n\n' "$title" "$name${more[*]:+ ${more[*]}}" "$name"
    sed '/^Machine: /d' "$out/bench-$name.md" | sed '1{/^$/d}'
  } >"$out/bench-$name.part"
  parts+=("$out/bench-$name.part")
}

section forward "Forwarding and a firewall" "The benchmark chains of data planes: L2 and L3 forwarding, ten rules, and these in a row." \
  l2fwd l3fwd fw10 fw-l3fwd fw-l3fwd-l2fwd
section examples "Example chains" "Routers, NAPTs, an ISP's edge whose flows exercise every rule of the access list." \
  routers-1 routers-10 napts-1 napts-8 router-nat-lb isp-edge:rules=acl-251.rules isp-edge:rules=acl-713.rules --flows 10000
section mixed "Both ways, mixed sizes, some flows popular" "Half of the packets are answers; frames of the simple IMIX; Zipf's law." \
  isp-edge ipv6-edge campus-dpi --flows 10000 --replies --size imix --zipf 1
while read -r name title; do
  experiment "$name" "$title"
done < <("$bin" bench --experiment list)

peer=$([ ! -f "$doc" ] || sed -n '/^<!-- peer -->$/,/^<!-- \/peer -->$/p' "$doc")
{
  cat <<'TEXT'
# Benchmarks

Written by `make bench`; to repeat it, run that. What is measured and how: [the guide](guide.md#what-does-a-packet-cost) and
[decision 12](decisions/0012-how-bench-measures.md). Unless told otherwise, figures are nanoseconds of processor time per packet on one core, from memory to memory; look at **above the ceiling**: what
the chain costs beyond having the packet at all. `reference` is the chain as written, element by element, in batches; `program` is what it was synthesized to; `flow` has a flow table in front of
it. Far apart minima and maxima say that the machine had other work; figures of one section were measured in alternation and can be compared.

TEXT
  sed -n '/^Machine: /p' "$out/bench-forward.md"
  printf '\nMeasured on %s.\n' "$(date -u +%F)"
  if [ -n "$peer" ]; then
    printf '\n%s\n' "$peer"
  fi
  cat "${parts[@]}"
} >"$out/benchmarks.md"
mv "$out/benchmarks.md" "$doc"
echo
echo "written: $doc; pages: $out/bench-*.html"
