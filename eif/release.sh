#!/usr/bin/env bash
# Makes the file of a release, or builds a release again and compares. Both build what is committed, from a checkout of its own.
#
#   eif/release.sh VERSION            for QEMU: eif/releases/VERSION-qemu.json from HEAD and the pinned Debian kernel
#   EIF_KERNEL=… eif/release.sh VERSION           for AWS: eif/releases/VERSION.json; the other settings of eif/build.sh apply
#   [EIF_KERNEL=…] eif/release.sh -check FILE     builds the source that FILE names; every measurement and hash must come out
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
work=$(mktemp -d)
trap 'git worktree remove --force "$work/source" 2>/dev/null || true; rm -rf "$work"' EXIT

# member FILE NAME: a text of the record, whose form cloister-eif has checked.
member() { sed -n "s/^  \"$2\": \"\(.*\)\",\$/\1/p" "$1"; }

if [ "${1:-}" = -check ]; then
	file=$(realpath "${2:?usage: eif/release.sh -check FILE}")
	EIF_VERSION=$(member "$file" version)
	EIF_PLATFORM=$(member "$file" platform)
	EIF_SOURCE=$(member "$file" source)
	EIF_CMDLINE=$(member "$file" commandLine)
	export EIF_CMDLINE
else
	EIF_VERSION=${1:?usage: eif/release.sh VERSION or -check FILE}
	EIF_SOURCE=$(git rev-parse HEAD)
	EIF_PLATFORM=nitro
	file=$top/eif/releases/$EIF_VERSION.json
	if [ -z "${EIF_KERNEL:-}" ]; then
		EIF_PLATFORM=qemu
		file=$top/eif/releases/$EIF_VERSION-qemu.json
	fi
fi
export EIF_VERSION EIF_PLATFORM EIF_SOURCE
git worktree add --quiet --detach "$work/source" "$EIF_SOURCE"
if [ "$EIF_PLATFORM" = qemu ]; then
	kernel=$("$work/source/eif/debian-kernel.sh")
	. "$work/source/eif/debian-kernel.pin"
	export EIF_KERNEL=$kernel/bzImage EIF_MODULES=$kernel/modules EIF_KERNEL_NAME="Debian $package $version"
	EIF_KERNEL_SHA256=$(cat "$kernel/sha256")
	export EIF_KERNEL_SHA256
fi
"$work/source/eif/build.sh" "$work/cloister.eif" >/dev/null

if [ "${1:-}" = -check ]; then
	if ! diff "$file" "$work/cloister.eif.json"; then
		echo "built again, $EIF_SOURCE measures as something else (a signed release: only with EIF_KEY and EIF_CERT)" >&2
		exit 1
	fi
	echo "built again from $EIF_SOURCE: the release of $(basename "$file"), bit for bit"
else
	if [ -e "$file" ]; then
		echo "$file is there: a release is never changed" >&2
		exit 1
	fi
	mkdir -p eif/releases
	cp "$work/cloister.eif.json" "$file"
	echo "$file"
fi
