#!/usr/bin/env bash
# The ISP edge between two network namespaces that are made here and removed again: a ping, real TCP and UDP through firewall, router and
# NAT, while rules are changed and the chain is reloaded. Needs root; without it, it says so and does nothing.
# Usage: scripts/demo-live.sh BINARY FOLDER
set -euo pipefail
bin=$(realpath "$1")
out=$2
mkdir -p "$out"

if [ "$(id -u)" -ne 0 ]; then
  echo "live part: making network namespaces needs root; for it, type: sudo make demo"
  exit 0
fi
have() { command -v "$1" >/dev/null 2>&1; }
need=()
have ip || need+=(iproute2)
have iperf3 || need+=(iperf3)
have ping || need+=(iputils-ping)
if [ ${#need[@]} -gt 0 ]; then
  have apt-get || { echo "live part: not found: ${need[*]}"; exit 0; }
  echo "installing for the live part: ${need[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" </dev/null >/dev/null
fi

id=onefold-demo-$$
socket=$out/live.sock
rules=$out/live.rules
onefold=
end() {
  [ -z "$onefold" ] || kill -TERM "$onefold" 2>/dev/null || true
  [ -z "$onefold" ] || wait "$onefold" 2>/dev/null || true
  for n in client edge server; do
    ip netns pids "$id-$n" 2>/dev/null | xargs -r kill 2>/dev/null || true
    ip netns del "$id-$n" 2>/dev/null || true
  done
  rm -f "$socket"
}
trap end EXIT
within() { ip netns exec "$id-$1" "${@:2}"; }

echo "== 6. live: a client and a server, each in a namespace of its own, and the ISP edge between them"
for n in client edge server; do
  ip netns add "$id-$n"
  within "$n" ip link set lo up
done
ip -n "$id-client" link add eth0 type veth peer name lan0 netns "$id-edge"
ip -n "$id-server" link add eth0 type veth peer name wan0 netns "$id-edge"
for i in client:eth0 server:eth0 edge:lan0 edge:wan0; do ip -n "$id-${i%:*}" link set "${i#*:}" up; done
ip -n "$id-client" addr add 204.152.0.10/16 dev eth0
ip -n "$id-client" route add default via 204.152.0.1
ip -n "$id-server" addr add 203.0.113.254/24 dev eth0
server=203.0.113.254
cat >"$rules" <<'END'
deny dst port 23
allow icmp
allow dst port 5201
END
# not by a function: the number would be a shell's
ip netns exec "$id-edge" "$bin" run isp-edge --set rules="$(realpath "$rules")" --port lan=xdp:lan0 --port wan=xdp:wan0 \
  --control "$socket" >"$out/live.txt" 2>"$out/live.err" &
onefold=$!
for _ in $(seq 600); do
  ! grep -q '^running;' "$out/live.err" || break
  kill -0 "$onefold" 2>/dev/null || { cat "$out/live.err" >&2; exit 1; }
  sleep 0.1
done
grep '^port ' "$out/live.err"

echo
echo "== 7. ping, then TCP for five seconds; meanwhile the rules change and the chain is reloaded"
within client ping -q -c 5 -i 0.2 "$server"
within server iperf3 -s -D >/dev/null
sleep 0.3
within client iperf3 -c "$server" -t 5 -f m >"$out/tcp.txt" &
tcp=$!
sleep 1
"$bin" rule add 'deny icmp' --socket "$socket"
within client ping -q -c 2 -i 0.2 -W 1 "$server" || echo "no answer: so the new rule says"
sed -i 's/^allow icmp/allow icmp type 8/' "$rules"
"$bin" reload --socket "$socket"
"$bin" top --once --socket "$socket"
wait "$tcp"
grep -E 'sender|receiver' "$out/tcp.txt"

echo
echo "== 8. the ping is answered again, and UDP at 50 Mbit/s comes through"
within client ping -q -c 3 -i 0.2 "$server"
within client iperf3 -c "$server" -u -b 50M -t 2 -f m >"$out/udp.txt"
grep -E 'sender|receiver' "$out/udp.txt"
kill -TERM "$onefold"
wait "$onefold" || true
onefold=
echo
head -n 14 "$out/live.txt"
echo "The whole report: $out/live.txt"
