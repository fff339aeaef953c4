#!/usr/bin/env bash
# The backup commands from a shell: beside a simulator that works, to a folder and to an S3 server that checks signatures,
# verified, restored and drilled; and what must be refused. Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

VERSITYGW_VERSION=v1.8.0

refused() {
	local says=$1
	shift
	if "$@" >"$work/refused" 2>&1; then
		echo "not refused: $*"
		return 1
	fi
	grep -q "$says" "$work/refused" || { echo "refused in other words: $*"; cat "$work/refused"; return 1; }
}

# simulator DIR MODE: one with a wallet, whose interface is $api, and whose log witnesses cosign in that mode.
simulator() {
	local port
	port=$(free_port)
	api=http://127.0.0.1:$port
	: >"$1.log"
	bin/cloister-sim -data-dir "$1" -api-addr "127.0.0.1:$port" -auth-proxy-addr "127.0.0.1:$(free_port)" -no-inbox -log "$2" >"$1.log" 2>&1 &
	started+=($!)
	await $! "$1.log" grep -q "Ctrl-C stops it" "$1.log"
	bin/cloister-host request -credentials "$1/credentials.json" -submit ACTIVITY_TYPE_CREATE_WALLET /public/v1/submit/create_wallet '{"walletName":"First","accounts":[
		{"curve":"CURVE_SECP256K1","pathFormat":"PATH_FORMAT_BIP32","path":"m/44'"'/60'/0'/0"'/0","addressFormat":"ADDRESS_FORMAT_ETHEREUM"},
		{"curve":"CURVE_ED25519","pathFormat":"PATH_FORMAT_BIP32","path":"m/44'"'/501'/0'/0'"'","addressFormat":"ADDRESS_FORMAT_SOLANA"}]}' >/dev/null
}

# nothing_lost STORE: witnesses have seen no more than it has. What was decided just now is on its way to one that was not needed.
nothing_lost() {
	local deadline=$((SECONDS + 60))
	until bin/cloister-host log heads -store "$1" >"$work/heads" && grep -q "nothing is \(lost\|missing\)" "$work/heads"; do
		[ $SECONDS -lt $deadline ] || { cat "$work/heads"; return 1; }
		sleep 0.2
	done
	cat "$work/heads"
}

# written: the folder that the last backup's output, in $work/out, names.
written() {
	sed -n 's/^written \(.*\) in [0-9.]* s$/\1/p' "$work/out"
}

folder() {
	trap stop_engines EXIT
	simulator "$work/a" strict
	bin/cloister-host log -url "$api"
	nothing_lost "$work/a/cloister.db"
	bin/cloister-host backup -store "$work/a/cloister.db" -to "$work/backups" | tee "$work/out"
	local backup deployment
	backup=$(written)
	deployment=$(sed -n 's/^  deployment *//p' "$work/out")
	curl -fsS -d '{}' "$api/boot/v1/status" | grep -q "\"deployment\":\"$deployment\""
	bin/cloister-host backup verify -from "$backup" -deployment "$deployment" | tee "$work/verified"
	grep -q "^  log 0 .* those of the log's checkpoint of [0-9]*, .* [34] of 4 witnesses have cosigned the first [0-9]*, by the policy in the backup$" "$work/verified"
	bin/cloister-host backup verify -from "$backup" -log-key "$(curl -fsS -d '{}' "$api/boot/v1/status" | sed -n 's/.*"vkey":"\([^"]*\)".*/\1/p')" | grep -q "signed by its key"
	bin/cloister-sim drill -data-dir "$work/a" -from "$backup" -compare "$api" | tee "$work/drill"
	grep -q "^2 addresses in 1 organizations, 100 signatures with 2 of them; 2 addresses computed anew" "$work/drill"
	grep -q "^2 addresses and keys are the same" "$work/drill"
	refused "not empty" bin/cloister-host restore -from "$backup" -store "$work/a/cloister.db"

	# Two activities later the backup is behind what the witnesses have seen, and says so; a copy that has the rest mends it.
	for name in one two; do
		bin/cloister-host request -credentials "$work/a/credentials.json" -submit ACTIVITY_TYPE_CREATE_USER_TAG /public/v1/submit/create_user_tag "{\"userTagName\":\"$name\",\"userIds\":[]}" >/dev/null
	done
	nothing_lost "$work/a/cloister.db"
	bin/cloister-host restore -from "$backup" -store "$work/behind.db"
	if bin/cloister-host log heads -store "$work/behind.db" | tee "$work/heads"; then
		echo "nothing is missing in an old backup"
		return 1
	fi
	grep -q "batches are missing: [34] of 4 witnesses have seen" "$work/heads"
	tail -n 1 "$work/heads" | grep -q '^\[{"range":0,"origin":".*","size":[0-9]*,"root":"[0-9a-f]*","witnessed":[0-9]*,"generation":2}\]$'
	bin/cloister-host backup -store "$work/a/cloister.db" -to "$work/backups" >"$work/out"
	bin/cloister-host log tail -store "$work/behind.db" "$(written)"
	nothing_lost "$work/behind.db"
	bin/cloister-host log tail -store "$work/behind.db" "$work/a/cloister.db"
	bin/cloister-host backup -store "$work/behind.db" -to "$work/backups" >"$work/out"
	bin/cloister-host backup verify -from "$(written)"
	bin/cloister-sim drill -data-dir "$work/a" -from "$(written)" -compare "$api" | tee "$work/drill"
	grep -q "^2 addresses and keys are the same" "$work/drill"
	refused "another deployment" bin/cloister-host restore -from "$backup" -store "$work/b.db" -deployment "${deployment//[0-9]/0}"
	sed -i 's/^cloister backup 1$/cloister backup 2/' "$backup/header"
	refused "later release" bin/cloister-host restore -from "$backup" -store "$work/b.db"
	sed -i 's/^cloister backup 2$/cloister backup 1/' "$backup/header"
	truncate -s -1 "$backup/chunk-00000000"
	refused "damaged" bin/cloister-host restore -from "$backup" -store "$work/b.db"
	simulator "$work/other" none
	bin/cloister-host backup -store "$work/other/cloister.db" -to "$work/backups" >"$work/out"
	refused "another deployment" bin/cloister-sim drill -data-dir "$work/a" -from "$(written)"
}

s3() {
	trap stop_engines EXIT
	local port backup
	port=$(free_port)
	mkdir -p "$work/s3/bucket" "$work/iam"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=s3 -addext subjectAltName=IP:127.0.0.1 \
		-keyout "$work/s3.key" -out "$work/s3.pem" 2>/dev/null
	ROOT_ACCESS_KEY=operator ROOT_SECRET_KEY=throw-away-secret "$versitygw" --cert "$work/s3.pem" --key "$work/s3.key" --port "127.0.0.1:$port" --quiet posix "$work/s3" >"$work/s3.log" 2>&1 &
	started+=($!)
	await $! "$work/s3.log" listening "$port"
	export AWS_ACCESS_KEY_ID=operator AWS_SECRET_ACCESS_KEY=throw-away-secret
	export CLOISTER_S3_ENDPOINT=127.0.0.1:$port CLOISTER_S3_ROOTS=$work/s3.pem CLOISTER_S3_PATH_STYLE=true CLOISTER_S3_REGION=us-east-1
	simulator "$work/c" none
	bin/cloister-host backup -store "$work/c/cloister.db" -to s3://bucket/cloister/daily | tee "$work/out"
	backup=$(written)
	bin/cloister-host backup verify -from "$backup"
	bin/cloister-host restore -from "$backup" -store "$work/restored.db"
	bin/cloister-sim drill -data-dir "$work/c" -from "$backup" -compare "$api"
	AWS_SECRET_ACCESS_KEY=wrong refused "signature" bin/cloister-host backup verify -from "$backup"
	CLOISTER_S3_ROOTS='' refused "certificate" bin/cloister-host backup verify -from "$backup"
	CLOISTER_S3_PLAIN=true refused "fetching header" bin/cloister-host backup verify -from "$backup"
	refused "bucket" bin/cloister-host backup -store "$work/c/cloister.db" -to s3://nowhere/x
	refused "no whole backup" bin/cloister-host backup verify -from s3://bucket/cloister/daily/none
	local chunk
	chunk=$(find "$work/s3/bucket" -name chunk-00000000)
	truncate -s -1 "$chunk"
	refused "chunk-00000000" bin/cloister-host backup verify -from "$backup"
}

stage "backups in a folder" folder
if built versitygw github.com/versity/versitygw/cmd/versitygw "$VERSITYGW_VERSION"; then
	versitygw=$engine
	stage "backups in an S3 server" s3
else
	left_out "backups in an S3 server" "the Go module proxy did not give github.com/versity/versitygw@$VERSITYGW_VERSION"
fi
finish
