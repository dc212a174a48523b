#!/usr/bin/env bash
# Puts a built binary and what goes with it below DESTDIR/PREFIX: the binary without symbols, the example chains, manual
# pages and completions (written by the binary itself), documents, the systemd unit.
# Usage: scripts/install.sh BINARY PREFIX [DESTDIR]
set -euo pipefail
bin=$1
prefix=${2%/}
dest=${3:-}
root=$(cd "$(dirname "$0")/.." && pwd)
to=$dest$prefix
share=$to/share

install -d "$to/bin"
# beside it first: somebody may be running the one that is there
install -m 755 "$bin" "$to/bin/.onefold.new"
if command -v strip >/dev/null 2>&1; then
  strip "$to/bin/.onefold.new"
else
  echo "strip is not there (binutils): the binary keeps its symbols" >&2
fi
mv -f "$to/bin/.onefold.new" "$to/bin/onefold"

rm -rf "$share/onefold/chains"
install -d "$share/onefold" "$share/man/man1" "$share/bash-completion/completions" \
  "$share/zsh/site-functions" "$share/fish/vendor_completions.d" "$share/doc/onefold/decisions"
cp -R "$root/chains" "$share/onefold/chains"
chmod -R u=rwX,go=rX "$share/onefold"

"$bin" man "$share/man/man1"
"$bin" completions bash >"$share/bash-completion/completions/onefold"
"$bin" completions zsh >"$share/zsh/site-functions/_onefold"
"$bin" completions fish >"$share/fish/vendor_completions.d/onefold.fish"

install -m 644 "$root/README.md" "$root/CHANGELOG.md" "$root"/docs/*.md "$share/doc/onefold"
install -m 644 "$root"/docs/decisions/*.md "$share/doc/onefold/decisions"

install -d "$to/lib/systemd/system"
sed -e "s|/usr/bin/onefold|$prefix/bin/onefold|" -e "s|/usr/share/doc|$prefix/share/doc|" \
  "$root/contrib/systemd/onefold@.service" >"$to/lib/systemd/system/onefold@.service"
chmod 644 "$to/lib/systemd/system/onefold@.service"
