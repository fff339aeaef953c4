#!/usr/bin/env bash
# Host and enclave, the programs of production, in two QEMU guests joined by AF_VSOCK: README.md beside it.
#
#   scripts/vsock/test.sh        CLOISTER_VSOCK_LIMIT=1h for a machine that is slower still
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

played() {
	local kernel
	kernel=$(scripts/vsock/kernel.sh)
	GO=$GO scripts/enclave.sh "$work/enclave"
	CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -o "$work/" ./host ./sim/guest
	"$GO" build -o "$work/play" ./scripts/vsock
	mkdir "$work/run"
	"$work/play" -kernel "$kernel" -enclave "$work/enclave" -host "$work/host" -guest "$work/guest" \
		-dir "$work/run" -limit "${CLOISTER_VSOCK_LIMIT:-15m}"
}

if ! command -v qemu-system-x86_64 >/dev/null; then
	left_out "host and enclave over AF_VSOCK" "apt-get install qemu-system-x86"
elif ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	left_out "host and enclave over AF_VSOCK" "needs Debian's apt for the guests' kernel"
else
	stage "host and enclave over AF_VSOCK in QEMU" played
fi
finish
