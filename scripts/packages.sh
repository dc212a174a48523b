#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Says what it does.
set -euo pipefail

need=()
have() { command -v "$1" >/dev/null 2>&1; }
have cc || need+=(gcc libc6-dev)
have tcpdump || need+=(tcpdump)
have tshark || need+=(tshark)
have cargo || { echo "no Rust toolchain: install one (rustup.rs, rustc 1.95 or newer)" >&2; exit 2; }
[ ${#need[@]} -eq 0 ] && exit 0

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
