#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Says what it does.
set -euo pipefail

need=()
have() { command -v "$1" >/dev/null 2>&1; }
have cc || need+=(gcc libc6-dev)
have tcpdump || need+=(tcpdump)
have tshark || need+=(tshark)
have tmux || need+=(tmux)
have cargo || { echo "no Rust toolchain: install one (rustup.rs, rustc 1.95 or newer)" >&2; exit 2; }

# A browser for the tests of the pages; where there is none they skip, saying so. (Ubuntu's package is a snap: left to people.)
browser() {
  [ "${1:-}" = test ] && ! have chromium && ! have chromium-browser || return 0
  grep -qs '^ID=debian' /etc/os-release && [ "$(id -u)" -eq 0 ] && have apt-get || return 0
  echo "installing for the tests of the pages: chromium"
  { [ ${#need[@]} -gt 0 ] || apt-get update -qq; } &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium </dev/null >/dev/null ||
    echo "chromium could not be installed: the tests of the pages skip" >&2
}
# The matcher of payloads, for the tests that compare it with the portable one: Hyperscan, as Debian's Vectorscan
# (5.4.9) misses matches, and is not used by Onefold. Nothing is removed for it. Where there is none these tests skip,
# saying so.
matcher() {
  [ "${1:-}" = test ] && grep -qs '^ID=debian' /etc/os-release && [ "$(id -u)" -eq 0 ] && have apt-get || return 0
  [ "$(dpkg --print-architecture)" = amd64 ] && ! dpkg -s libhyperscan5 >/dev/null 2>&1 || return 0
  echo "installing for the tests of the payload matchers: libhyperscan5"
  apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove libhyperscan5 \
      </dev/null >/dev/null ||
    echo "libhyperscan5 could not be installed: the tests of the payload matchers skip" >&2
}

# DPDK, for the tests of its ports. Where there is none, Onefold is built without, and these tests skip, saying so.
dpdk() {
  [ "${1:-}" = test ] && grep -qs '^ID=debian' /etc/os-release && [ "$(id -u)" -eq 0 ] && have apt-get || return 0
  ! { have pkg-config && pkg-config --exists libdpdk; } || return 0
  echo "installing for the tests of DPDK's ports: libdpdk-dev"
  apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove libdpdk-dev pkg-config \
      </dev/null >/dev/null ||
    echo "libdpdk-dev could not be installed: the tests of DPDK's ports skip" >&2
}

# Programs of others that tests put into chains: the kernel's packet filter, a proxy, DPDK's testpmd, Open vSwitch, and
# ip. None is started by its package; where one is missing its tests skip, saying so.
outside() {
  [ "${1:-}" = test ] && grep -qs '^ID=debian' /etc/os-release && [ "$(id -u)" -eq 0 ] && have apt-get || return 0
  local lack=() pair
  for pair in ip:iproute2 nft:nftables iptables:iptables haproxy:haproxy dpdk-testpmd:dpdk-dev \
    ovs-vswitchd:openvswitch-switch; do
    have "${pair%%:*}" || lack+=("${pair##*:}")
  done
  [ ${#lack[@]} -gt 0 ] || return 0
  echo "installing for the tests of black boxes and with the kernel: ${lack[*]}"
  local policy=/usr/sbin/policy-rc.d made=
  if [ ! -e "$policy" ]; then
    # services of these packages are not started (Debian Policy 9.3.3)
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made=1
  fi
  apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "${lack[@]}" \
      </dev/null >/dev/null ||
    echo "could not be installed: ${lack[*]}; the tests of black boxes skip" >&2
  [ -z "$made" ] || rm -f "$policy"
}

if [ ${#need[@]} -eq 0 ]; then
  matcher "$@"
  dpdk "$@"
  outside "$@"
  browser "$@"
  exit 0
fi

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
echo "installing: ${need[*]}"
"${sudo[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${need[@]}" </dev/null >/dev/null
matcher "$@"
dpdk "$@"
outside "$@"
browser "$@"
