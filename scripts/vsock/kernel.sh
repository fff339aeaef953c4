#!/usr/bin/env bash
# Fetches Debian's kernel for the guests and prints the folder where it lies unpacked, drivers included. It is fetched once,
# into ~/.cache/cloister, and nothing is installed.
#
#   scripts/vsock/kernel.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/debian-apt.sh

cache=${CLOISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cloister}

# The package behind the one that only names the newest.
newest() {
	apt-cache show linux-image-amd64 2>/dev/null | sed -n 's/^Depends: *\(linux-image-[^ ,]*\).*/\1/p' | head -n 1
}

# A kernel that is here already will do: this test is not about the newest.
have=$(compgen -G "$cache/vsock-linux-image-*/boot/vmlinuz-*" | head -n 1 || true)
if [ -n "$have" ]; then
	dirname "$(dirname "$have")"
	exit 0
fi
mkdir -p "$cache"
work=$(mktemp -d "$cache/vsock.XXXXXX")
trap 'rm -rf "$work"' EXIT
package=$(newest)
if [ -z "$package" ] || ! (cd "$work" && apt-get -o APT::Sandbox::User="$(id -un)" download -qq "$package") >&2; then
	# The machine's lists are absent or too old: read them anew, into a place of our own.
	debian_apt "$cache/apt" >&2
	export APT_CONFIG=$DEBIAN_APT
	package=$(newest)
	(cd "$work" && apt-get download -qq "$package") >&2
fi
dpkg-deb -x "$work"/*.deb "$work/unpacked"
place=$cache/vsock-$package
rm -rf "$place"
mv "$work/unpacked" "$place"
echo "$place"
