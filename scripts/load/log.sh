#!/usr/bin/env bash
# What witnesses cost: one deployment without, one with a bounded log and one with a strict one, side by side in one run, with 1, 16
# and 64 clients. Servers on CPU 0; witnesses and the generator beside them, on CPU 1. Then 256 clients, once more with witnesses that
# answer 30 ms later. Full work, as in run.sh.
#
#   scripts/load/log.sh [REPETITIONS [SECONDS]]
#
# Wants python3, taskset and a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
reps=${1:-5} seconds=${2:-3}
yard=${YARDSTICK:-../shared/bench}
[ -d "$yard/load" ] || { echo "scripts/load: no yardstick at $yard" >&2; exit 1; }
make --no-print-directory build
work=$(mktemp -d)
sims=()
trap 'kill -9 "${sims[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
cp -r "$yard/load" "$work/load"
chmod -R u+w "$work/load"
(cd "$work/load" && go build -o "$work/generator" .)
port=${PORT:-18480}
start() { # start NAME MODE [FLAG...]
	local name=$1 mode=$2 data=$work/$1 api=127.0.0.1:$port
	shift 2
	mkdir "$data"
	: >"$data/out"
	taskset -c 0 bin/cloister-sim -data-dir "$data" -enclave-addr "unix:$data/enclave.sock" -api-addr "$api" -auth-proxy-addr "127.0.0.1:$((port + 1))" \
		-no-inbox -log "$mode" -log-level warn "$@" >"$data/out" 2>&1 &
	sims+=($!)
	port=$((port + 2))
	until grep -q 'Cloister is running' "$data/out"; do
		kill -0 "${sims[-1]}" || { cat "$data/out" >&2; exit 1; }
		sleep 0.2
	done
	taskset -a -p -c 1 "${sims[-1]}" >/dev/null # its witnesses; enclave and host stay
	bin/cloister-host request -credentials "$data/credentials.json" -submit ACTIVITY_TYPE_CREATE_WALLET /public/v1/submit/create_wallet \
		'{"walletName":"Load","accounts":[{"curve":"CURVE_SECP256K1","pathFormat":"PATH_FORMAT_BIP32","path":"m/44'"'"'/60'"'"'/0'"'"'/0/0","addressFormat":"ADDRESS_FORMAT_ETHEREUM"}]}' >"$data/wallet.json"
	echo "$name $data $api" >>"$work/deployments"
}
start none none
start bounded bounded
start strict strict
start distant strict -witness-delay 30ms
python3 scripts/load/log.py "$work" "$reps" "$seconds"
