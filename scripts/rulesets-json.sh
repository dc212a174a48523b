#!/usr/bin/env bash
# Makes rules.json of rules.nft anew, as `nft -j list ruleset` prints it, an object on each line: as root, for each
# folder below crates/cli/tests/rulesets that has one. The ruleset is loaded in a network namespace of its own.
set -euo pipefail
cd "$(dirname "$0")/../crates/cli/tests/rulesets"
for text in */rules.nft; do
  json=${text%.nft}.json
  unshare -n sh -c "nft -f '$text' && nft -j list ruleset" | python3 -c '
import json, sys
objects = json.load(sys.stdin)["nftables"]
print("{\"nftables\": [\n" + ",\n".join(json.dumps(o) for o in objects) + "\n]}")' >"$json.new"
  mv "$json.new" "$json"
done
