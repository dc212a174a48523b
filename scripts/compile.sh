#!/bin/sh
# What cargo calls in the place of rustc for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER) in scripts/test.sh;
# CLIPPY_DRIVER is clippy's. Everything is linted once, and what is executed is optimised as anywhere else:
#
# - Clippy's driver lints and compiles, but switches the optimisation of MIR off: what it compiles is larger, takes LLVM
#   longer, and is slower. It has the programs of tests, whose sources contain those of their library.
# - rustc has libraries as others depend on them, and the program `onefold` that tests launch. Its warnings are errors.
# - WITHOUT_DPDK=1: what is different without DPDK is linted, and for the program no code is made.
case " $* " in
  *" --test "*) ;;
  *" --crate-name onefold_port_dpdk "*) ;;
  *" --crate-name onefold --edition"*)
    [ -n "$WITHOUT_DPDK" ] || exec "$@" -Dwarnings
    for arg; do
      shift
      case $arg in --emit=*) arg=--emit=dep-info,metadata ;; esac
      set -- "$@" "$arg"
    done
    ;;
  *" --crate-type lib "*) exec "$@" -Dwarnings ;;
esac
exec "$CLIPPY_DRIVER" "$@"
