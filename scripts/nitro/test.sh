#!/usr/bin/env bash
# Boots the images that `make eif` and `make app-eif` make in QEMU's nitro-enclave machine, with /dev/nsm and a parent beside it,
# and holds what the module measured against two computations of our own. In the second, a customer's program runs, from its
# manifest to an answer.
#
#   scripts/nitro/test.sh         make test-nitro, and part of make campaign
#
# Needs Debian, python3 and openssl; the first time root, since QEMU is built (qemu.sh). The images are those of production,
# unmodified, with Debian's kernel, signed with a key made for this run. The machine's security module signs nothing, so documents
# are checked up to there.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
GO=${GO:-go}
export GO
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prepare() {
	local qemu kernel package version
	qemu=$(scripts/nitro/qemu.sh)
	kernel=$(eif/debian-kernel.sh)
	. eif/debian-kernel.pin
	printf '%s\n' "$qemu" >"$work/qemu"
	printf '%s\n' "$kernel" >"$work/kernel"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp384r1 -sha384 -nodes -days 2 -subj '/CN=test-nitro' \
		-keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
	local image
	for image in eif app-eif; do
		make --no-print-directory "$image" BIN="$work" EIF_KERNEL="$kernel/bzImage" EIF_KERNEL_SHA256="$(cat "$kernel/sha256")" \
			EIF_KERNEL_NAME="Debian $package $version" EIF_MODULES="$kernel/modules" EIF_PLATFORM=qemu \
			EIF_KEY="$work/key.pem" EIF_CERT="$work/cert.pem" >/dev/null
	done
	CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/" ./scripts/nitro/parent ./scripts/nitro/apphost ./host ./sim/cosigner
	"$GO" build -o "$work/nitro" ./scripts/nitro
}

boot() {
	"$work/cloister-eif" check -release "$work/$1.json" "$work/$1"
	python3 scripts/nitro/pcrs.py "$work/$1" >"$work/second"
	"$work/nitro" -qemu "$(cat "$work/qemu")" -firmware /usr/share/qemu,/usr/share/seabios -image "$work/$1" -release "$work/$1.json" \
		-second "$work/second" -kernel "$(cat "$work/kernel")" "${@:2}"
}

both() {
	prepare
	boot cloister.eif -parent "$work/parent" -host "$work/host"
	boot cloister-app.eif -parent "$work/apphost" -program "$work/cosigner"
}

what="images in QEMU's nitro-enclave machine"
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	left_out "$what" "needs Debian's apt for QEMU's source and the guests' kernel"
elif ! command -v python3 >/dev/null || ! command -v openssl >/dev/null; then
	left_out "$what" "apt-get install python3 openssl"
else
	stage "$what" both
fi
finish
