#!/usr/bin/env bash
# Fetches the rulesets that docs/rulesets.md lists, checks them against their hashes there, and says what is missing.
# What is there already and right is kept.
# Usage: scripts/rulesets.sh [FOLDER]   (default: ONEFOLD_RULESETS, or ../rulesets beside the repository)
# ONEFOLD_RULESETS_FROM: who serves OWNER/REPO/COMMIT/PATH (https://raw.githubusercontent.com)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
list=$root/docs/rulesets.md
folder=${1:-${ONEFOLD_RULESETS:-$root/../rulesets}}
from=${ONEFOLD_RULESETS_FROM:-https://raw.githubusercontent.com}
command -v curl >/dev/null || { echo "curl is needed" >&2; exit 2; }
mkdir -p "$folder"
part=$(mktemp -d)
trap 'rm -rf "$part"' EXIT

# FILE HASH
right() { [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]; }

# OWNER/REPO@COMMIT:PATH[#LA-LB] FILE
fetch() {
  local repository=${1%%@*} rest=${1#*@} path lines=
  local commit=${rest%%:*}
  path=${rest#*:}
  case $path in *'#L'*) lines=${path##*#L} path=${path%#L*} ;; esac
  curl --globoff --silent --show-error --fail --location --retry 2 --max-time 60 \
    --output "$part/whole" "$from/$repository/$commit/$path" || return 1
  if [ -n "$lines" ]; then
    sed -n "${lines%%-*},${lines##*-L}p" "$part/whole" >"$2"
  else
    mv "$part/whole" "$2"
  fi
}

total=0 kept=0 fetched=0 missing=()
while IFS=$'\t' read -r group name source hash; do
  total=$((total + 1))
  file=$folder/$group/$name
  if right "$file" "$hash"; then
    kept=$((kept + 1))
  elif ! fetch "$source" "$part/text" </dev/null; then
    missing+=("$group/$name: $source cannot be fetched")
  elif ! right "$part/text" "$hash"; then
    missing+=("$group/$name: $source is another text than the list says")
  else
    mkdir -p "$folder/$group"
    mv "$part/text" "$file"
    fetched=$((fetched + 1))
  fi
done < <(sed -nE 's/^\| ([a-z]+) \| ([^ |]+) \| `([^`]+@[0-9a-f]{40}:[^`]+)` \|.*\| `([0-9a-f]{64})` \|$/\1\t\2\t\3\t\4/p' "$list")

echo "$total rulesets: $kept were there, $fetched fetched, ${#missing[@]} missing; in $folder"
[ "$total" -gt 0 ] || { echo "no list in $list" >&2; exit 2; }
if [ ${#missing[@]} -gt 0 ]; then
  printf 'missing: %s\n' "${missing[@]}" >&2
  exit 1
fi
