#!/usr/bin/env bash
# Our readers of transactions, interfaces and typed data, and our addresses, against the reference libraries of their
# chains. The libraries need many modules, so the tests are a module of their own.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
here=$PWD/enclave/internal/chain/reference
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# What the libraries bind to C they also have in Go.
export CGO_ENABLED=0 GOFLAGS=''

reference() {
	(cd "$here" && "$GO" test -timeout 20m ./...)
}

if ! (cd "$here" && "$GO" list -deps -test ./...) >"$log" 2>&1; then
	left_out "the reference libraries" "a Go module proxy must serve the modules of enclave/internal/chain/reference/go.mod"
else
	stage "reference libraries" reference
fi
finish
