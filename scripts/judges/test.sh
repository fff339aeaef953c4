#!/usr/bin/env bash
# The networks' own software judges what Cloister signs: geth and btcd run and take it, the Solana and TON virtual machines
# execute it, the other networks' libraries verify it. Clients reach the simulator through their unmodified adapters.
#
#   scripts/judges/test.sh [FILE...]      all of node/ when none is named, without .mjs
#
# Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=$PWD/scripts/judges
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

# judged NAME [NODE-FLAG...]: one file of tests.
judged() {
	local name=$1
	shift
	node "$@" --test --test-timeout=300000 --test-reporter=spec "$work/node/$name.mjs"
}

# The virtual machine's compiled programs leave the x87 unit unusable behind them, and V8 does this one sum with it.
solana() {
	judged "$1" --no-allocation-site-pretenuring
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "the networks' judges" "apt-get install nodejs npm"
	finish
	exit
fi
if ! node_modules "$here" judges; then
	left_out "the networks' judges" "npm could not fetch the packages of scripts/judges/package.json"
	finish
	exit
fi
mkdir "$work/node"
cp "$here"/node/*.mjs "$work/node/"
ln -s "$modules/node_modules" "$work/node/node_modules"
cp attestation/js/verify.mjs "$work/node/"
go run ./scripts/wasm "$work/verifier" >/dev/null
export VERIFIER_URL=file://$work/verifier/

# Where node/sponsored.mjs stands in the place of a node: a lamport costs a millionth of a dollar there.
SOLANA_NODE_PORT=$(free_port)
export SOLANA_NODE_PORT CLOISTER_CHAIN=solana:devnet=http://127.0.0.1:$SOLANA_NODE_PORT CLOISTER_CONFIGURATION=$work/configuration
echo '{"gas":{"prices":{"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1":1000000000}}}' >"$CLOISTER_CONFIGURATION"
start_sim "$work/sim"
export CLOISTER_CREDENTIALS=$sim_credentials

has_geth=no
if geth_built; then
	has_geth=yes
	start_geth "$work/geth"
	export GETH_URL=$geth_url GETH_FUNDED_KEY=$geth_funded_key
else
	left_out "geth" "a Go module proxy must serve github.com/ethereum/go-ethereum@$GETH_VERSION"
fi
has_btcd=no
if btcd_built; then
	has_btcd=yes
	# The key whose hash this is stands in node/btc.mjs.
	start_btcd "$work/btcd" bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080
	export BTCD_URL=$btcd_url BTCD_USER=$btcd_user BTCD_PASSWORD=$btcd_password
else
	left_out "btcd" "a Go module proxy must serve github.com/btcsuite/btcd@$BTCD_VERSION"
fi

if [ $# -eq 0 ]; then
	for file in "$here"/node/*.mjs; do
		case $(basename "$file" .mjs) in
		setting | derive | chain-eth | view | view-* | decoded-*) ;;
		*) set -- "$@" "$(basename "$file" .mjs)" ;;
		esac
	done
fi
for name in "$@"; do
	case $name in
	viem | ethers | provider) [ $has_geth = no ] || stage "judge: $name" judged "$name" ;;
	btc) [ $has_btcd = no ] || stage "judge: $name" judged "$name" ;;
	solana | sponsored) stage "judge: $name" solana "$name" ;;
	*) stage "judge: $name" judged "$name" ;;
	esac
done
finish
