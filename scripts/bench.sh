#!/usr/bin/env bash
# Measures the example chains, as written and synthesized, and writes docs/benchmarks.md; pages with plots go to the output folder.
# Usage: scripts/bench.sh BINARY FOLDER [SECONDS_OF_A_SLICE]
set -euo pipefail
bin=$1
out=$2
seconds=${3:-0.3}
doc=docs/benchmarks.md
mkdir -p "$out"
parts=()

# NAME TITLE TEXT ARGUMENTS...
section() {
  local name=$1 title=$2 text=$3
  shift 3
  echo "== $title"
  "$bin" bench "$@" --mode both --seconds "$seconds" --repeats 5 --html "$out/bench-$name.html" --markdown "$out/bench-$name.md"
  {
    printf '\n## %s\n\n%s\n\n```sh\nonefold bench %s --mode both --seconds %s --repeats 5\n```\n\n' "$title" "$text" "$*" "$seconds"
    # the machine is said once
    sed '/^Machine: /d' "$out/bench-$name.md" | sed '1{/^$/d}'
  } >"$out/bench-$name.part"
  parts+=("$out/bench-$name.part")
}

section forward "Forwarding and a firewall" "The benchmark chains of data planes: L2 and L3 forwarding, ten rules, and these in a row." \
  l2fwd l3fwd fw10 fw-l3fwd fw-l3fwd-l2fwd
section routers "Routers in a row" "Full IP routers with ten routes each." routers-1 routers-2 routers-4 routers-8 routers-10
section napts "NAPTs in a row, and three functions" "Nested NAT on established flows; router, NAPT and load balancer." \
  napts-1 napts-2 napts-4 napts-8 router-nat-lb
section napts-64k "The same with 64,000 flows" "State that does not fit into the nearest caches." \
  napts-1 napts-2 napts-4 napts-8 router-nat-lb --flows 64000
section edge "An ISP's edge" "Firewall, router, NAPT; flows exercise every rule of the access list." \
  isp-edge:rules=acl-251.rules isp-edge:rules=acl-713.rules --flows 10000
section mixed "Both ways, mixed sizes, some flows popular" "Half of the packets are answers; frames of the simple IMIX; Zipf's law." \
  isp-edge ipv6-edge campus-dpi --flows 10000 --replies --size imix --zipf 1

{
  cat <<'TEXT'
# Benchmarks

Written by `make bench`; to repeat it, run that. What is measured and how: [the guide](guide.md#what-does-a-packet-cost) and
[decision 12](decisions/0012-how-bench-measures.md). All figures are nanoseconds of processor time per packet on one core, from memory to memory; look at **above the ceiling**: what
the chain costs beyond having the packet at all. `reference` is the chain as written, element by element, in batches; `synthesized` is the program, packet by
packet. Far apart minima and maxima say that the machine had other work; figures of one section were measured in alternation and can be compared.

TEXT
  sed -n '/^Machine: /p' "$out/bench-forward.md"
  cat "${parts[@]}"
} >"$doc"
echo
echo "written: $doc; pages: $out/bench-*.html"
