#!/usr/bin/env bash
# Fetches the pinned Debian kernel and prints the folder that holds it: bzImage, its modules as modules/NN-name.ko in the
# order of loading, and sha256 with the hash of bzImage. For QEMU only: this kernel cannot boot in AWS Nitro Enclaves, which
# tell it their devices in a way that it was not built for.
#
#   eif/debian-kernel.sh            fetched once, into ~/.cache/cloister
#   eif/debian-kernel.sh FILE.deb   from a file that is there already; its SHA-256 must be the pinned one all the same
set -euo pipefail
given=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
. eif/debian-kernel.pin
. scripts/debian-apt.sh

cache=${CLOISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cloister}
place=$cache/kernel-${deb_sha256:0:16}

unavailable() {
	cat >&2 <<-TEXT
		Debian's mirror does not have $package $version ($suite).
		A mirror keeps a version for some weeks; https://snapshot.debian.org keeps it for ever. Fetch
		  ${package}_${version}_amd64.deb
		from there and give it to eif/debian-kernel.sh: only a file with the SHA-256
		  $deb_sha256
		is taken. Another version is another kernel, so other measurements: change eif/debian-kernel.pin.
	TEXT
	exit 1
}

if [ ! -f "$place/sha256" ]; then
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/kernel.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	if [ -n "$given" ]; then
		cp "$given" "$work/kernel.deb"
	else
		debian_apt "$cache/apt" >&2
		(cd "$work" && APT_CONFIG=$DEBIAN_APT apt-get download -qq "$package=$version") >&2 || unavailable
		mv "$work"/*.deb "$work/kernel.deb"
	fi
	printf '%s  %s\n' "$deb_sha256" "$work/kernel.deb" | sha256sum --check --quiet >&2 || unavailable

	dpkg-deb -x "$work/kernel.deb" "$work/unpacked"
	mkdir -p "$work/out/modules"
	cp "$work"/unpacked/boot/vmlinuz-* "$work/out/bzImage"
	# What the nitro-enclave machine has and Debian builds as modules. They are xz-compressed there; in the image they are
	# not, so that loading needs nothing of the kernel.
	number=0
	for name in virtio_mmio vsock vmw_vsock_virtio_transport_common vmw_vsock_virtio_transport nsm; do
		number=$((number + 1))
		file=$(find "$work/unpacked/lib/modules" -name "$name.ko.xz")
		xz -dc "$file" >"$(printf '%s/out/modules/%02d-%s.ko' "$work" "$number" "$name")"
	done
	sha256sum "$work/out/bzImage" | cut -d' ' -f1 >"$work/out/sha256"
	rm -rf "$place"
	mv "$work/out" "$place"
fi
echo "$place"
