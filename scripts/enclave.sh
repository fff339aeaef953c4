#!/usr/bin/env bash
# Builds the production enclave to the file that is named. The same source and toolchain give the same bytes whatever
# the directory, the user, the clock or the cache: no paths, no build id, no symbols, no C.
#
#   scripts/enclave.sh OUTPUT [PACKAGE]    ./enclave unless another is named, such as ./enclave/app/init
set -euo pipefail
out=${1:?usage: scripts/enclave.sh OUTPUT [PACKAGE]}
package=${2:-./enclave}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")/.."

if [ ! -f "$package/main.go" ]; then
	echo "scripts/enclave.sh: $package/main.go is not in this tree" >&2
	exit 1
fi
# Every setting that changes what is built. None is empty: for an empty one Go would look into the user's own file of settings.
export CGO_ENABLED=0 GOOS=linux GOARCH=amd64 GOAMD64=v1 GOFLAGS=-mod=readonly GOWORK=off GOEXPERIMENT=runtimesecret GOFIPS140=off
# Exactly the toolchain of go.mod, also where a newer one is installed; Go fetches it then.
GOTOOLCHAIN=$(sed -n 's/^toolchain //p' go.mod)
export GOTOOLCHAIN
exec "${GO:-go}" build -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o "$out" "$package"
