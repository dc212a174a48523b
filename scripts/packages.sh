#!/usr/bin/env bash
# Installs what building needs and this machine lacks; on Debian as root with the argument `test` also what tests want,
# with `dpdk` what changes what is built. Says what it does. Where something cannot be installed, the tests that want it
# skip, saying so.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }
get() { DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null; }

need=() # to build, and to check captures with tools other than ours
have cc || need+=(gcc libc6-dev)
if [ "${1:-}" != dpdk ]; then
  have tcpdump || need+=(tcpdump)
  have tshark || need+=(tshark)
  have tmux || need+=(tmux)
fi
have cargo || { echo "no Rust toolchain: install one (rustup.rs, rustc 1.95 or newer)" >&2; exit 2; }

want=() # for tests (Ubuntu's browser is a snap: left to people)
debian() { grep -qs '^ID=debian' /etc/os-release && [ "$(id -u)" -eq 0 ] && have apt-get; }
if [ "${1:-}" = test ] || [ "${1:-}" = dpdk ] && debian; then
  # DPDK, for its ports; without it Onefold is built without them
  { have pkg-config && pkg-config --exists libdpdk; } || want+=(libdpdk-dev pkg-config)
fi
if [ "${1:-}" = test ] && debian; then
  # a browser for the tests of the pages
  have chromium || have chromium-browser || want+=(chromium)
  # The matcher of payloads, compared with the portable one: Hyperscan, as Debian's Vectorscan (5.4.9) misses matches and
  # is not used by Onefold. Nothing is removed for it.
  [ "$(dpkg --print-architecture)" != amd64 ] || dpkg -s libhyperscan5 >/dev/null 2>&1 || want+=(libhyperscan5)
  # programs of others that tests put into chains: the kernel's packet filter and its sets, a proxy, DPDK's testpmd, Open vSwitch, ip
  for pair in ip:iproute2 nft:nftables iptables:iptables ipset:ipset haproxy:haproxy dpdk-testpmd:dpdk-dev \
    ovs-vswitchd:openvswitch-switch; do
    have "${pair%%:*}" || want+=("${pair##*:}")
  done
fi
[ $((${#need[@]} + ${#want[@]})) -gt 0 ] || exit 0

if ! have apt-get; then
  have cc || { echo "please install a C linker (gcc or clang)" >&2; exit 2; }
  echo "not found: ${need[*]}; tests that want them will skip" >&2
  exit 0
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  have sudo || { echo "missing packages: ${need[*]}; install them as root" >&2; exit 2; }
  sudo=(sudo)
fi
echo "installing: ${need[*]} ${want[*]}"
"${sudo[@]}" apt-get update -qq || echo "the list of packages could not be brought up to date" >&2
[ ${#need[@]} -eq 0 ] || get "${need[@]}"
[ ${#want[@]} -gt 0 ] || exit 0

# services of these packages are not started (Debian Policy 9.3.3)
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
# in one go, which is quicker; where that fails, each by itself
get --no-remove "${want[@]}" && exit 0
for p in "${want[@]}"; do
  get --no-remove "$p" || echo "$p could not be installed: the tests that want it skip" >&2
done
