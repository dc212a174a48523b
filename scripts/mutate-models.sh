#!/usr/bin/env bash
# Breaks every element's model, one place at a time, and says which changes the tests find out. See docs/model-mutants.md.
# ONEFOLD_MUTANTS limits the changes per input of a configuration (default 120), ONEFOLD_MUTANTS_OF names elements to look at (part of
# their class), ONEFOLD_MUTANTS_LEAST is the least share in per
# cent that must be found out (default 95).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --profile quick -p onefold-elements --test models -- --ignored --nocapture mutants_are_caught
