#!/usr/bin/env bash
# make test-nitro: boots the image that `make eif` makes in QEMU's nitro-enclave machine, with /dev/nsm and a parent beside it,
# and holds what the module measured against two computations of our own. Not part of make campaign: it builds QEMU once.
#
# Needs Debian, python3 and openssl; root the first time. The image is the production enclave, unmodified, with Debian's kernel,
# signed with a key made for this run. The machine's security module signs nothing, so documents are checked up to there.
set -euo pipefail
cd "$(dirname "$0")/../.."
GO=${GO:-go}
export GO
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

qemu=$(scripts/nitro/qemu.sh)
kernel=$(eif/debian-kernel.sh)
. eif/debian-kernel.pin
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp384r1 -sha384 -nodes -days 2 -subj '/CN=test-nitro' \
	-keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
make --no-print-directory eif BIN="$work" EIF_KERNEL="$kernel/bzImage" EIF_KERNEL_SHA256="$(cat "$kernel/sha256")" \
	EIF_KERNEL_NAME="Debian $package $version" EIF_MODULES="$kernel/modules" EIF_PLATFORM=qemu \
	EIF_KEY="$work/key.pem" EIF_CERT="$work/cert.pem" >/dev/null
"$work/cloister-eif" check -release "$work/cloister.eif.json" "$work/cloister.eif"
python3 scripts/nitro/pcrs.py "$work/cloister.eif" >"$work/second"
CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/" ./scripts/nitro/parent ./host
"$GO" build -o "$work/nitro" ./scripts/nitro
"$work/nitro" -qemu "$qemu" -firmware /usr/share/qemu,/usr/share/seabios -image "$work/cloister.eif" -release "$work/cloister.eif.json" \
	-second "$work/second" -kernel "$kernel" -parent "$work/parent" -host "$work/host"
