#!/bin/sh
# What cargo calls in the place of rustc for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER) in scripts/test.sh;
# CLIPPY_DRIVER is clippy's. Everything is linted once, and what is executed is optimised as anywhere else, but for the
# programs of tests:
#
# - Clippy's driver lints and compiles, but switches the optimisation of MIR off: what it compiles is larger, takes LLVM
#   longer, and is slower. It has the programs of tests, whose sources contain those of their library.
# - Programs of tests are executed once: most of them for a second, while to optimise them takes many. They are not, nor
#   is what unit tests execute of their own library; the libraries that they are linked with are. But for those that
#   are executed for long, or whose threads take turns within microseconds.
# - rustc has libraries as others depend on them, and the program `onefold` that tests launch. Its warnings are errors.
# - WITHOUT_DPDK=1: what is different without DPDK is linted, and for the program no code is made.
case " $* " in
  *" --test "*)
    case " $* " in
      *" crates/classify/"* | *" crates/levers/"* | *" crates/nf/"*) ;;
      *) set -- "$@" -C opt-level=0 ;;
    esac
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
