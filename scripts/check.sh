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

# Where a check can be switched off in the weakened build: file, what, how often. One more is a decision, and a line in the
# list. Outside of the enclave a function tells whether it is: lenient in shared/wire, anyQuorum in attestation.
weakenable() {
	find enclave shared attestation -name '*.go' -not -name '*_test.go' -not -path 'enclave/internal/insecure/*' -print0 | sort -z |
		xargs -0 grep -oE 'insecure\.Skip\(insecure\.[A-Za-z]+|!(lenient|anyQuorum)\(' | sed 's/:insecure\.Skip(insecure\./ /; s/:!\(.*\)(/ \1/' | sort | uniq -c |
		awk '{print $2, $3, $1}' >"$scratch/weakenable"
	diff <(grep -v '^#' scripts/weakenable.txt) "$scratch/weakenable" ||
		{ echo 'left: scripts/weakenable.txt, right: the source'; return 1; }
}

# A permission is a value that only policy makes, and signing is the libraries' work: what would be another way is not
# there. That secrets cross no signature as bytes, secrets_test.go shows. Each line says where in product code the words may stand;
# the folders activitytest and apitest are for tests alone, as imports_test.go holds.
only() { # only WHAT FOLDER FILES PATTERN
	local found
	found=$(find "$2" -name '*.go' -not -name '*_test.go' -not -path 'enclave/internal/activity/*test/*' -print0 | sort -z | xargs -0 grep -nE "$4" | grep -vE "^($3):" || true)
	[ -z "$found" ] || { printf '%s:\n%s\n' "$1" "$found"; return 1; }
}

proven() {
	only "grants are made by policy alone" enclave 'enclave/internal/policy/grant.go' 'policy\.Grant\{|&Grant\{|new\((policy\.)?Grant\)' &&
	only "keys has no interface for grants" enclave/internal/keys '' 'type Grant interface|Spend\(action string\)' &&
	only "wallets' keys sign in keys alone, P-256 in p256, a log's checkpoints in log" enclave \
		'enclave/internal/(keys/(secp256k1|schnorr|ed25519)|p256/p256|webhook/[a-z]+|boot/[a-z]+|log/keys)\.go' \
		'ecdsa\.Sign|SignCompact|schnorr\.Sign|ed25519\.Sign\(|\.Sign\(nil, ' &&
	only "what signs is called where it is verified" enclave/internal/keys 'enclave/internal/keys/private_key.go' '\bs\.sign\(' &&
	only "no build tells a secret" enclave '' 'insecure\.Record|TestOnlyRecord' &&
	only "keys has no arithmetic of its own but one verifier's equation and one blinded product" enclave/internal/keys 'enclave/internal/keys/secp256k1.go' '"math/big"|"math/bits"|NonConst|Inverse|ipad|0x5c'
}

# Inside the enclave JSON is read by strictjson and CBOR by modes that refuse what could be read in two ways: never by a
# default decoder. cloister-replay is a command for people, whose own credentials it reads.
strictly_read() {
	only "read by a default decoder" enclave 'enclave/replay/fetch\.go' \
		'\b(json\.(Unmarshal|NewDecoder|Decoder)|cbor\.(Unmarshal|UnmarshalFirst|NewDecoder|Decoder)|(gob|xml)\.)\b'
}

stage "gofmt" formatted
stage "go vet" vetted
stage "imports, linked packages, real time in tests" "$GO" test -count=1 .
stage "staticcheck" analysed
stage "govulncheck" vulnerable
stage "no weakening outside of tests" unweakened
stage "what tests can switch off" weakenable
stage "grants and signing" proven
stage "no default decoder in the enclave" strictly_read
finish
