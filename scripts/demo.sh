#!/usr/bin/env bash
# The main job in one go: a million packets both ways through the ISP edge (firewall, router, NAPT), as written and as one
# function, with equal output. Captures are removed at the end, whatever it is; KEEP=1 leaves them.
set -euo pipefail
bin=$1
out=$2
mkdir -p "$out"
size() { du -sh "$out" | cut -f 1; }
before=$(size)
captures=("$out"/{lan,seen,wan}.pcap "$out"/to-{lan,wan}-{reference,synthesized}.pcap)
end() { [ -n "${KEEP:-}" ] || rm -f "${captures[@]}"; }
trap end EXIT

echo "== 1. traffic from the LAN that exercises every rule of the access list: $out/lan.pcap"
"$bin" gen --from-rules chains/isp-edge/acl-713.rules --flows 7130 --packets 640000 --size imix \
  --src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02 --pps 1000000 --out "$out/lan.pcap"

echo
echo "== 2. what the Internet sees of it, and its answers: $out/wan.pcap"
"$bin" run isp-edge --quiet --in lan="$out/lan.pcap" --out wan="$out/seen.pcap" >/dev/null
"$bin" gen --answers-to "$out/seen.pcap" --packets 640000 --out "$out/wan.pcap"

for mode in reference synthesized; do
  echo
  echo "== 3. both directions through the chain, $mode"
  "$bin" run isp-edge --mode "$mode" --in lan="$out/lan.pcap" --in wan="$out/wan.pcap" \
    --out lan="$out/to-lan-$mode.pcap" --out wan="$out/to-wan-$mode.pcap" --html "$out/isp-edge-$mode.html" | tee "$out/$mode.txt"
done

echo
echo "== 4. are they the same, byte by byte?"
for port in lan wan; do
  cmp "$out/to-$port-reference.pcap" "$out/to-$port-synthesized.pcap"
  echo "what left at $port is the same: $(stat -c %s "$out/to-$port-synthesized.pcap") bytes"
done
for mode in reference synthesized; do
  printf '%-12s %s\n' "$mode" "$(head -n 1 "$out/$mode.txt")"
done

echo
echo "== 5. one packet, every decision, both ways"
"$bin" trace isp-edge --in lan="$out/lan.pcap#1"

echo
echo "Pages with rates, drops by reason and the graph: $out/isp-edge-reference.html, $out/isp-edge-synthesized.html"
if "$bin" explain --help >/dev/null 2>&1; then
  "$bin" explain isp-edge --html "$out/explain.html" >/dev/null
  echo "Every traffic class, where it comes from and what is done to it: $out/explain.html"
fi

echo
most=$(size)
end
kept="captures are removed (KEEP=1 make demo leaves them)"
[ -z "${KEEP:-}" ] || kept="captures are kept"
echo "$out: $before before, $most with captures, $(size) now; $kept"
