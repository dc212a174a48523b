#!/usr/bin/env bash
# A Debian package of a built binary, made of what `make install` puts below /usr. Needs dpkg-deb; what the binary needs
# is worked out by dpkg-shlibdeps (dpkg-dev) where that is there.
# Usage: scripts/deb.sh BINARY FOLDER          writes FOLDER/onefold_VERSION_ARCHITECTURE.deb and prints its name
# ONEFOLD_DEB_FLAGS goes to dpkg-deb (-Zgzip -z1: fast, and larger).
set -euo pipefail
bin=$1
out=$2
root=$(cd "$(dirname "$0")/.." && pwd)
command -v dpkg-deb >/dev/null 2>&1 || { echo "dpkg-deb is not there: install dpkg" >&2; exit 2; }

version=$("$bin" --version | awk '{ print $2 }')
architecture=$(dpkg --print-architecture)
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/tree
mkdir -m 755 "$tree"
umask 022

"$root/scripts/install.sh" "$bin" /usr "$tree"
doc=$tree/usr/share/doc/onefold
# as Debian has them: compressed pages and changes, the licence under the name "copyright", zsh's own folder
gzip -9n "$tree"/usr/share/man/man1/*.1 "$doc/CHANGELOG.md"
mv "$doc/CHANGELOG.md.gz" "$doc/changelog.gz"
mkdir -p "$tree/usr/share/zsh/vendor-completions"
mv "$tree/usr/share/zsh/site-functions/_onefold" "$tree/usr/share/zsh/vendor-completions/"
rmdir "$tree/usr/share/zsh/site-functions"
{
  echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
  echo "Upstream-Name: onefold"
  echo
  echo "Files: *"
  echo "Copyright: the Onefold authors"
  echo "License: Apache-2.0"
  echo " On Debian systems the text of the Apache License, version 2.0, is in"
  echo " /usr/share/common-licenses/Apache-2.0."
} >"$doc/copyright"
chmod 644 "$doc/copyright"
find "$tree" -type d -exec chmod 755 {} +

depends="libc6, libgcc-s1"
if command -v dpkg-shlibdeps >/dev/null 2>&1; then
  # it wants to be where a source package is unpacked
  mkdir -p "$stage/debian"
  printf 'Source: onefold\n\nPackage: onefold\nArchitecture: any\n' >"$stage/debian/control"
  found=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info tree/usr/bin/onefold 2>/dev/null |
    sed -n 's/^shlibs:Depends=//p') || found=
  depends=${found:-$depends}
fi

mkdir "$tree/DEBIAN"
size=$(du -k --apparent-size -s --exclude=DEBIAN "$tree" | cut -f 1)
cat >"$tree/DEBIAN/control" <<END
Package: onefold
Version: $version
Architecture: $architecture
Maintainer: Onefold <onefold@localhost>
Installed-Size: $size
Depends: $depends
Recommends: iproute2
Suggests: nftables, iptables, tcpdump
Section: net
Priority: optional
Description: chains of network functions at the speed of one
 Onefold runs chains of network functions (firewall, router, NAT, load
 balancer, deep packet inspection) on captures and network interfaces, as
 one program that is proved to do what the chain says before the first
 packet.
END
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
chmod 644 "$tree/DEBIAN/control" "$tree/DEBIAN/md5sums"
for when in postinst postrm; do
  cat >"$tree/DEBIAN/$when" <<'END'
#!/bin/sh
set -e
# the unit is a template: nothing is started or stopped here
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
exit 0
END
  chmod 755 "$tree/DEBIAN/$when"
done

deb=$out/onefold_${version}_$architecture.deb
# shellcheck disable=SC2086
dpkg-deb ${ONEFOLD_DEB_FLAGS:-} --root-owner-group --build "$tree" "$deb" >/dev/null
echo "$deb"
