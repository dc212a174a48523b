#!/usr/bin/env bash
# The main job in one go: a million packets both ways through the ISP edge (firewall, router, NAPT).
set -euo pipefail
bin=$1
out=$2
mkdir -p "$out"

echo "== 1. traffic from the LAN that exercises every rule of the access list: $out/lan.pcap"
"$bin" gen --from-rules chains/isp-edge/acl-713.rules --flows 7130 --packets 640000 --size imix \
  --src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02 --pps 1000000 --out "$out/lan.pcap"

echo
echo "== 2. what the Internet sees of it, and its answers: $out/wan.pcap"
"$bin" run isp-edge --quiet --in lan="$out/lan.pcap" --out wan="$out/seen.pcap" >/dev/null
"$bin" gen --answers-to "$out/seen.pcap" --packets 640000 --out "$out/wan.pcap"

echo
echo "== 3. both directions through the chain"
"$bin" run isp-edge --in lan="$out/lan.pcap" --in wan="$out/wan.pcap" \
  --out lan="$out/to-lan.pcap" --out wan="$out/to-wan.pcap" --html "$out/isp-edge.html"

echo
echo "== 4. one packet, every decision"
"$bin" trace isp-edge --in lan="$out/lan.pcap#1"

echo
echo "The page with rates, drops by reason and the graph: $out/isp-edge.html"
