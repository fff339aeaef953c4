#!/usr/bin/env bash
# README.md as a newcomer follows it: `make run` in a copy of the tree, the snippet and the commands of README as they stand, every
# command that `make run` prints, twice, and again after kill -9. Fails where one of them does, or prints something else than it says.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh

# block LANGUAGE: the fenced block of README.md in that language; there is one.
block() {
	awk -v open="\`\`\`$1" '$0 == open { on = 1; next } on && /^```$/ { exit } on' README.md
}

# printed N: the command under a number that `make run` has printed.
printed() {
	sed -n "/^$1\. /{n;s/^   //;p;}" "$work/log"
}

# run_it: make run, until it says how it stops.
run_it() {
	# Of a make around this one nothing is inherited: it would say where it enters and leaves.
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make run GO="$GO" >"$work/log" 2>&1 &
	running=$!
	started+=("$running")
	await "$running" "$work/log" grep -q 'Ctrl-C stops it' "$work/log"
}

newcomer() {
	work=$(mktemp -d)
	trap 'stop_engines; rm -rf "$work"' EXIT
	git ls-files -z | xargs -0 cp -P --parents -t "$work"
	cd "$work"
	export CLOISTER_API_ADDR=127.0.0.1:$(free_port) CLOISTER_AUTH_PROXY_ADDR=127.0.0.1:$(free_port)
	run_it
	# From the banner on nothing is said until something happens.
	[ -z "$(sed -n '/Ctrl-C stops it/,$p' "$work/log" | tail -n +2)" ]

	block js >sign.mjs
	bash -euo pipefail -c "$(block sh)" >signed
	grep -q '^0x[0-9A-Fa-f]\{40\} {' signed
	grep -q "r: '[0-9a-f]\{64\}'" signed

	mkdir -p kit/node_modules/@turnkey
	cp -rL "$modules/node_modules/@turnkey/crypto" kit/node_modules/@turnkey/
	for again in first second; do
		bash -c "$(printed 1)" | grep -q "username: 'Root user'"
		bash -c "$(printed 2)" | grep -q 'the reply is in'
		bash -c "$(printed 3)" | grep -q '^VERIFIED: 1 boot proof(s), 2 app proof(s)'
		(cd kit && bash -c "$(printed 4)")
		echo "counted: the $again time every printed command does what it says"
	done

	# The data survives kill -9 of all processes; a proof from before does too.
	local before
	before=$(printed 3)
	kill_family "$running"
	run_it
	bin/cloister-host request -credentials cloister-data/credentials.json /public/v1/query/list_wallets '{}' | grep -q '"walletName":"Wallet '
	bash -c "${before##* && }" | grep -q '^VERIFIED'
	bash -c "$(printed 1)" | grep -q "username: 'Root user'"

	# Ctrl-C ends it without a word.
	kill -INT "$(pgrep -P "$running" cloister-sim)"
	wait "$running"
	[ -z "$(sed -n '/Ctrl-C stops it/,$p' "$work/log" | tail -n +2)" ]
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "README as a newcomer follows it" "apt-get install nodejs npm"
elif ! node_modules scripts/interop interop; then
	left_out "README as a newcomer follows it" "npm could not fetch the packages of scripts/interop/package.json"
else
	stage "README as a newcomer follows it" newcomer
fi
finish
