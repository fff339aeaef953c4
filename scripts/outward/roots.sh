#!/usr/bin/env bash
# Makes enclave/internal/netclient/roots/mozilla.pem anew; see the README there. The same version gives the same bytes.
#
#   scripts/outward/roots.sh [VERSION]      VERSION is of the module, "latest" when none is named
set -euo pipefail
cd "$(dirname "$0")/../.."
GO=${GO:-go}
module=golang.org/x/crypto/x509roots/fallback
into=$PWD/enclave/internal/netclient/roots/mozilla.pem
program=$PWD/scripts/outward/roots.go
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$program" "$work/main.go"
cd "$work"
export GOFLAGS='' GOEXPERIMENT=''
"$GO" mod init roots >/dev/null 2>&1
"$GO" get "$module@${1:-latest}" 2>log || { cat log; exit 1; }
version=$("$GO" list -m -f '{{.Version}}' "$module")
sum=$(grep "^$module $version h1:" go.sum | cut -d' ' -f3)
# v0.0.0-YYYYMMDDhhmmss-REVISION
date=$(printf '%s' "$version" | cut -d- -f2 | cut -c1-8)
"$GO" run main.go "$version" "$sum" "$date" >new.pem
grep -m1 '^# certificates:' new.pem
mv new.pem "$into"
