# Onefold: what a newcomer and CI run.
#   make          build the release binary (link-time optimisation: minutes); with ports of DPDK where libdpdk-dev is installed
#   make install  put the release build below DESTDIR/PREFIX (~/.cargo unless told otherwise), without symbols, with the
#                 examples, manual pages, completions, documents and the systemd unit
#   make deb      a Debian package of the release build, in out/
#   make demo     build quickly, generate a million packets both ways, run the ISP edge on them, show the result; as root
#                 also live, between two network namespaces: TCP, UDP, a rule and a reload under traffic
#   make bench    what a packet costs in the example chains, and all experiments; writes docs/benchmarks.md and pages with plots (five to ten minutes, after the build)
#   make check    the inner loop: formatting, lints and tests of the crates with changed files (scripts/check.sh)
#   make test     everything: formatting, lints, all tests; lists what skipped, and why
#   make soak     long runs: random chains, mutants, events, fuzzing ... (hours; make soak-NAME for one; docs/soak.md)
#   make mutants  broken programs of the example chains, each refuted or proved to do the same (minutes)
#   make full-table  half a million routes: load time, 10^7 look-ups against a naive one, changes under traffic (a minute)
#   make fuzz     every fuzz target for FUZZ_SECONDS (default 600); installs cargo-fuzz
# On Debian and Ubuntu, missing packages are installed (with sudo if needed); the Makefile says which.

SHELL := /bin/bash
CARGO ?= cargo
BIN := target/release/onefold
QUICK := target/quick/onefold
OUT := out
FUZZ_SECONDS ?= 600
# Ports of DPDK, where its headers are (Debian: libdpdk-dev); without them everything else is built.
FEATURES = $(shell pkg-config --exists libdpdk 2>/dev/null && echo --features onefold/dpdk)
PREFIX ?= $(or $(CARGO_HOME),$(HOME)/.cargo)

FULL_TABLE ?= $(or $(wildcard $(or $(ONEFOLD_DATA),../shared/data)/fib/dfz-half-public.prefixes.txt.gz),)

# The NF library: static and shared, in target/release. Installed with header, manual page and pkg-config file.
nf-library: packages
	$(CARGO) build --release --locked -p onefold-nf-c

install-nf-library: nf-library
	install -D -m 644 target/release/libonefold_nf_c.a $(DESTDIR)$(PREFIX)/lib/libonefold-nf.a
	install -D -m 755 target/release/libonefold_nf_c.so $(DESTDIR)$(PREFIX)/lib/libonefold-nf.so
	install -D -m 644 crates/nf-c/include/onefold_nf.h $(DESTDIR)$(PREFIX)/include/onefold_nf.h
	install -D -m 644 crates/nf-c/man/onefold_nf.3 $(DESTDIR)$(PREFIX)/share/man/man3/onefold_nf.3
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@prefix@|$(PREFIX)|' -e 's|@version@|0.1.0|' crates/nf-c/onefold-nf.pc.in \
	  >$(DESTDIR)$(PREFIX)/lib/pkgconfig/onefold-nf.pc

.PHONY: nf-library install-nf-library
.PHONY: all build install deb quick demo bench full-table check test soak lint mutants fuzz packages test-packages clean

all: build

# A linker and libc headers for Rust; tcpdump and tshark so that tests check captures with tools other than ours; for
# tests, on Debian, a browser that opens the pages.
packages:
	@scripts/packages.sh

build: packages
	$(CARGO) build --release --locked $(FEATURES)

quick: packages
	$(CARGO) build --profile quick --locked -p onefold $(FEATURES)

install: build
	@scripts/install.sh $(BIN) $(PREFIX) $(DESTDIR)

deb: build
	@scripts/deb.sh $(BIN) $(OUT)

demo: quick
	@scripts/demo.sh $(QUICK) $(OUT)
	@echo
	@scripts/demo-live.sh $(QUICK) $(OUT)

bench: build
	@scripts/bench.sh $(BIN) $(OUT)

full-table: packages
	$(CARGO) run --release --locked -p onefold-engine --example full_table $(FULL_TABLE)

mutants: packages
	$(CARGO) test --locked -p onefold-verify --test verify-suite -- mutants:: --ignored --nocapture

lint: packages
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked $(FEATURES) -- -D warnings

check: packages
	@scripts/check.sh

# Lints come with the build of the tests.
test: test-packages
	$(CARGO) fmt --all --check
	@scripts/test.sh

# Before anything is built: whether DPDK is there decides what is. What else tests want comes meanwhile
# (scripts/test.sh).
test-packages:
	@scripts/packages.sh dpdk

soak: packages
	@scripts/soak.sh all

soak-%: packages
	@scripts/soak.sh $*

fuzz: packages
	@scripts/fuzz.sh $(FUZZ_SECONDS)

clean:
	$(CARGO) clean
	rm -rf $(OUT)
