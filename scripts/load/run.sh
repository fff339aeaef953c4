#!/usr/bin/env bash
# Cloister beside the reference signer, in one run: CPU for a signature, requests a second, latency with one client, and p99
# under an open loop at half of each one's own maximum. Server on CPU 0, generator on CPU 1; both reach their enclave by a Unix
# socket. Full work: stamp verified, policy decided, signed, app proofs, durable commit, replay protection; every request is a
# new body.
#
#   scripts/load/run.sh [REPETITIONS [SECONDS]]       results in scripts/load/out
#   ORGANIZATIONS=100000 scripts/load/run.sh          with that many organizations in the store
#   LOG=bounded scripts/load/run.sh                   with witnesses, on CPU 0 as well and not counted; or strict
#   YARDSTICK=dir                                     the yardstick's folder, ../shared/bench unless said otherwise
#
# Wants python3, taskset and a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
reps=${1:-5} seconds=${2:-2}
yard=${YARDSTICK:-../shared/bench}
out=scripts/load/out
[ -d "$yard/skeleton" ] || { echo "scripts/load: no yardstick at $yard" >&2; exit 1; }
make --no-print-directory build
mkdir -p "$out"
out=$(realpath "$out")
src=$(mktemp -d)
cp -r "$yard"/. "$src"
chmod -R u+w "$src"
for d in load skeleton; do (cd "$src/$d" && go build -o "$out/$d" .); done
cp "$src/sidebyside.py" "$out"
rm -rf "$src"
data=$(mktemp -d)
api=127.0.0.1:${PORT:-18480}
taskset -c 0 bin/cloister-sim -data-dir "$data" -enclave-addr "unix:$data/enclave.sock" -api-addr "$api" -auth-proxy-addr "127.0.0.1:$((${PORT:-18480} + 1))" -organizations "${ORGANIZATIONS:-0}" -log "${LOG:-none}" \
	-log-level warn >"$out/sim.log" 2>&1 &
sim=$!
trap 'kill -9 $sim 2>/dev/null || true; wait $sim 2>/dev/null || true; rm -rf "$data"' EXIT
until grep -q 'Cloister is running' "$out/sim.log"; do
	kill -0 $sim || { cat "$out/sim.log" >&2; exit 1; }
	sleep 0.2
done
pids=$(awk '$2 == "enclave" || $2 == "host" {print $1}' "$data/pids" | paste -sd,)
bin/cloister-host request -credentials "$data/credentials.json" -submit ACTIVITY_TYPE_CREATE_WALLET /public/v1/submit/create_wallet \
	'{"walletName":"Load","accounts":[{"curve":"CURVE_SECP256K1","pathFormat":"PATH_FORMAT_BIP32","path":"m/44'"'"'/60'"'"'/0'"'"'/0/0","addressFormat":"ADDRESS_FORMAT_ETHEREUM"}]}' >"$out/wallet.json"
address=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["activity"]["result"]["createWalletResult"]["addresses"][0])' "$out/wallet.json")
go run ./scripts/load/check -data "$data" -address "$address"
DATA=$data PIDS=$pids API=$api REPS=$reps SECONDS_EACH=$seconds python3 scripts/load/compare.py "$out"
