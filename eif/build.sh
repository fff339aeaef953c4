#!/usr/bin/env bash
# Builds the enclave and from it the image that is named, with its measurements beside it (IMAGE.json). The same source,
# toolchain, kernel and settings give the same bytes in every directory, for every user, at every time.
#
#   EIF_KERNEL=FILE eif/build.sh IMAGE
#
# EIF_KERNEL         the kernel, an x86 bzImage
# EIF_KERNEL_SHA256  refuse any other
# EIF_KERNEL_NAME    where it is from, for the record
# EIF_MODULES        kernel modules: a directory (loaded in the order of their names), or files with commas between them
# EIF_CMDLINE        another command line
# EIF_KEY, EIF_CERT  P-384 key and its certificate, PEM, to sign with
# EIF_VERSION        version of the release; "development" if not said
# EIF_PLATFORM       qemu for an image that is not for AWS
# EIF_SOURCE         git commit, for the record
# EIF_PACKAGE        the command that is /init: ./enclave, or ./enclave/app/init for the base image of customers' programs
set -euo pipefail
out=${1:?usage: eif/build.sh IMAGE}
# Files are named from where the caller stands.
flags=()
for setting in kernel kernel-sha256 kernel-name modules cmdline key cert version platform source; do
	name=EIF_$(printf '%s' "$setting" | tr a-z- A-Z_)
	value=${!name:-}
	[ -z "$value" ] || flags+=("-$setting" "$value")
done
# One that is misspelt would change nothing.
for name in $(compgen -e); do
	case $name in
	EIF_KERNEL | EIF_KERNEL_SHA256 | EIF_KERNEL_NAME | EIF_MODULES | EIF_CMDLINE | EIF_KEY | EIF_CERT | EIF_VERSION | EIF_PLATFORM | EIF_SOURCE | EIF_PACKAGE) ;;
	EIF_*)
		echo "$name is no setting; there are EIF_KERNEL, _KERNEL_SHA256, _KERNEL_NAME, _MODULES, _CMDLINE, _KEY, _CERT, _VERSION, _PLATFORM, _SOURCE and _PACKAGE" >&2
		exit 2
		;;
	esac
done
if [ -z "${EIF_KERNEL:-}" ]; then
	echo "EIF_KERNEL is not set: it takes a kernel to make an image, see eif/README.md" >&2
	exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$top/scripts/enclave.sh" "$work/enclave" "${EIF_PACKAGE:-./enclave}"
# Settings as for the enclave, so that what both are made of is compiled once.
(cd "$top" && CGO_ENABLED=0 GOAMD64=v1 GOFLAGS=-mod=readonly GOWORK=off GOEXPERIMENT=runtimesecret GOFIPS140=off "${GO:-go}" build -trimpath -buildvcs=false -o "$work/cloister-eif" ./eif)
"$work/cloister-eif" build -init "$work/enclave" -o "$out" "${flags[@]}"
