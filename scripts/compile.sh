#!/bin/sh
# What cargo calls in the place of rustc for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER) in scripts/test.sh;
# CLIPPY_DRIVER is clippy's. Everything is linted once, and what is executed is optimised as anywhere else, but for the
# programs of tests that are named below:
#
# - Clippy's driver lints and compiles, but switches the optimisation of MIR off: what it compiles is larger, takes LLVM
#   longer, and is slower. It has the programs of tests, whose sources contain those of their library.
# - The largest of these are not optimised: to do so takes much longer than it saves when they are executed, once. The
#   libraries that they are linked with are.
# - rustc has libraries as others depend on them, and the program `onefold` that tests launch. Its warnings are errors.
# - WITHOUT_DPDK=1: what is different without DPDK is linted, and for the program no code is made.
unoptimised="onefold_elements onefold_engine onefold_nat onefold_synth onefold_verify verify_suite"
case " $* " in
  *" --test "*)
    for name in $unoptimised; do
      case " $* " in *" --crate-name $name "*) set -- "$@" -C opt-level=0 ;; esac
    done
    ;;
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
