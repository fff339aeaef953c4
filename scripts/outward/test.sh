#!/usr/bin/env bash
# What the enclave says to names outside, said to others' servers: mail to aiosmtpd over STARTTLS and TLS with a private root.
#
#   scripts/outward/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh

if /usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null; then
	stage "mail through aiosmtpd" "$GO" test -count=1 -timeout 20m -tags outward_real -run '^TestReal' ./enclave/internal/netclient ./enclave/core
else
	left_out "mail through aiosmtpd" "apt-get install python3-aiosmtpd"
fi
finish
