#!/usr/bin/env bash
# What must hold of the source without running the product: format, vet, staticcheck, known vulnerabilities, who imports
# whom, what the enclave links, and the words that must not be in it.
#
#   scripts/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stage.sh

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

formatted() {
	local wrong
	wrong=$(find . -name '*.go' -not -path './bin/*' -print0 | xargs -0 gofmt -l)
	[ -z "$wrong" ] || { printf 'gofmt would change:\n%s\n' "$wrong"; return 1; }
}

# The attack tests have a build of their own, which must compile like the other.
vetted() {
	"$GO" vet ./...
	"$GO" vet -tags cloister_insecure ./...
}

# The analysers are a module of their own, so that the product's go.mod names nothing that only developers need.
analysers() {
	tools=$CACHE/tools-$(cat scripts/tools/go.sum <("$GO" version) | sha256sum | cut -c1-16)
	[ -x "$tools/govulncheck" ] && [ -x "$tools/staticcheck" ] && return 0
	mkdir -p "$tools"
	(cd scripts/tools && GOFLAGS='' GOEXPERIMENT='' "$GO" build -o "$tools/" tool)
}

analysed() {
	if ! analysers; then
		left_out "staticcheck" "its module could not be fetched; needs a Go module proxy once"
		return 0
	fi
	"$tools/staticcheck" ./...
	(cd scripts/interop/gosdk && "$tools/staticcheck" ./...)
	(cd scripts/interop/webauthn && "$tools/staticcheck" ./...)
}

# The vulnerability database is a snapshot, so that the same commit gives the same answer.
vulnerable() {
	local snapshot=${CLOISTER_VULNDB:-../shared/vectors/vulndb.tgz}
	if [ ! -f "$snapshot" ]; then
		left_out "govulncheck" "set CLOISTER_VULNDB to a vulndb.tgz: the Go vulnerability database as files"
		return 0
	fi
	if ! analysers; then
		left_out "govulncheck" "its module could not be fetched; needs a Go module proxy once"
		return 0
	fi
	mkdir "$scratch/vulndb"
	tar -xzf "$snapshot" -C "$scratch/vulndb"
	"$tools/govulncheck" -db "file://$scratch/vulndb" ./...
}

# Weakenings for tests are named so that they can be found. Only files of the ordinary build are read: those behind a build
# tag are what the attack and crash tests switch on.
unweakened() {
	local found
	found=$("$GO" list -f '{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' ./enclave/... ./attestation/... ./shared/... |
		xargs grep -nE '\b(insecure|Insecure|testOnly|TestOnly)[A-Z]' || true)
	[ -z "$found" ] || { printf 'weakened outside of tests:\n%s\n' "$found"; return 1; }
}

stage "gofmt" formatted
stage "go vet" vetted
stage "imports and linked packages" "$GO" test -count=1 .
stage "staticcheck" analysed
stage "govulncheck" vulnerable
stage "no weakening outside of tests" unweakened
finish
