# shellcheck shell=bash disable=SC2034
# Sourced after scripts/stage.sh: networks' own software, built once into the cache and started on loopback ports, the
# simulator beside it, and the ends of both. Nothing here decides what is left out; the callers do.
#
#   geth_built && start_geth DIR      # then $geth_url, $geth_chain_id, and $geth_funded_key, whose account is rich
#   btcd_built && start_btcd DIR ADDR # then $btcd_url, with $btcd_user and $btcd_password; mines to ADDR on request
#   start_sim DIR                     # then $sim_credentials
#   node_modules FOLDER NAME          # then $modules
#
# Whoever starts something traps EXIT with stop_engines, in the same shell: a stage is one of its own.

GETH_VERSION=v1.17.2
BTCD_VERSION=v0.26.2

started=()

# built NAME PACKAGE VERSION: $CACHE/engines/NAME-VERSION-…, with the toolchain in the name. No C compiler is asked for.
built() {
	local name=$1 package=$2 version=$3
	local dir
	dir=$CACHE/engines/$name-$version-$("$GO" env GOVERSION GOOS GOARCH | paste -sd-)
	engine=$dir/$name
	[ -x "$engine" ] && return 0
	mkdir -p "$dir"
	# A name of its own until it is whole: two runs may build at once. GOEXPERIMENT is the product's and would build the
	# standard library once more.
	local scratch
	scratch=$(mktemp -d "$dir/building.XXXXXX")
	if ! (cd "$scratch" && GOBIN=$scratch GOFLAGS=-mod=mod GOWORK=off GOEXPERIMENT='' CGO_ENABLED=0 \
		"$GO" install "$package@$version") >"$scratch/log" 2>&1; then
		tail -n 20 "$scratch/log"
		rm -rf "$scratch"
		return 1
	fi
	mv -f "$scratch/$name" "$engine"
	rm -rf "$scratch"
}

geth_built() {
	built geth github.com/ethereum/go-ethereum/cmd/geth "$GETH_VERSION" && geth=$engine
}

btcd_built() {
	built btcd github.com/btcsuite/btcd "$BTCD_VERSION" && btcd=$engine
}

# node_modules FOLDER NAME: the packages of FOLDER/package-lock.json, installed once into the cache, never into the tree.
# Install scripts do not run (.npmrc).
node_modules() {
	local log
	modules=$CACHE/$2-$(cat "$1/package-lock.json" <(node --version) | sha256sum | cut -c1-16)
	[ -e "$modules/complete" ] && return 0
	mkdir -p "$modules"
	cp "$1/package.json" "$1/package-lock.json" "$1/.npmrc" "$modules/"
	log=$(mktemp)
	(cd "$modules" && npm ci --no-update-notifier >"$log" 2>&1) || { tail -n 20 "$log"; rm -f "$log"; return 1; }
	rm -f "$log"
	touch "$modules/complete"
}

# family PID: the process and all that it started, directly or not.
family() {
	local child
	echo "$1"
	for child in $(ps -o pid= --ppid "$1" 2>/dev/null || true); do family "$child"; done
}

# kill_family PID: the tree is read while the parent lives, stopped so that it starts nothing more, and ended at once.
kill_family() {
	local pids
	kill -STOP "$1" 2>/dev/null || return 0
	pids=$(family "$1")
	# shellcheck disable=SC2086
	kill -KILL $pids 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}

stop_engines() {
	local pid
	for pid in "${started[@]}"; do kill_family "$pid"; done
	started=()
}

# free_port: a loopback port at which nobody answers.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 12000))
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

# listening PORT
listening() {
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# await PID LOG COMMAND...: until the command succeeds, while the process lives, up to five minutes; else the end of its log.
await() {
	local pid=$1 log=$2 deadline=$((SECONDS + 300))
	shift 2
	until "$@"; do
		if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
			echo "it did not come up; its log:"
			tail -n 40 "$log"
			return 1
		fi
		sleep 0.1
	done
}

# with_station: has start_geth put the gas station and its delegate at their published addresses.
with_station() {
	local published=2a31ef110e4cdb9c332aa1d8633510214299c48b:TKGasDelegate\ 1cbbd58e521e1133f09e2ba207e3e75c4db404d5:TKGasStation one
	for one in $published; do
		geth_alloc+="\"${one%:*}\":{\"balance\":\"0x0\",\"code\":\"0x$(cat "scripts/sending/testdata/${one#*:}.hex")\"},"
	done
}

# start_geth DIR: a chain with every fork that geth's developer mode has, under the chain id of a public test network,
# because clients and the enclave know chains by their public names. It seals a block for each transaction that comes.
# Transactions without a chain id (before EIP-155) are let in. $geth_alloc is more of the genesis: accounts, each with a comma.
start_geth() {
	local dir=$1 port
	geth_chain_id=11155111
	# The key with this number has the money. It is written nowhere else and worth nothing.
	geth_funded_key=0x00000000000000000000000000000000000000000000000000000000c1015705
	local funded=863e5cda79db398e50b75c239e1486e0f5821cb8
	mkdir -p "$dir"
	"$geth" --dev dumpgenesis 2>"$dir/init.log" |
		sed -e "s/\"chainId\":1337/\"chainId\":$geth_chain_id/" \
			-e "s/\"alloc\":{/\"alloc\":{\"$funded\":{\"balance\":\"0xd3c21bcecceda1000000\"},${geth_alloc:-}/" >"$dir/genesis.json"
	"$geth" init --datadir "$dir/data" "$dir/genesis.json" >>"$dir/init.log" 2>&1 || { tail -n 20 "$dir/init.log"; return 1; }
	port=$(free_port)
	"$geth" --dev --datadir "$dir/data" --http --http.addr 127.0.0.1 --http.port "$port" --http.api eth,net,web3,txpool \
		--rpc.allow-unprotected-txs --authrpc.port "$(free_port)" --ipcdisable --maxpeers 0 --nodiscover --port 0 \
		>"$dir/geth.log" 2>&1 &
	started+=($!)
	geth_url=http://127.0.0.1:$port
	await $! "$dir/geth.log" listening "$port"
}

# start_btcd DIR ADDRESS: regtest with every rule of the main network that can be asked for, mining to ADDRESS when told.
start_btcd() {
	local dir=$1 port
	port=$(free_port)
	btcd_user=judge
	btcd_password=judge
	mkdir -p "$dir"
	"$btcd" --regtest --datadir "$dir/data" --logdir "$dir/logs" --configfile "$dir/none" --rpclisten "127.0.0.1:$port" --notls \
		--rpcuser "$btcd_user" --rpcpass "$btcd_password" --nolisten --nodnsseed --rejectnonstd --txindex --miningaddr "$2" \
		>"$dir/btcd.log" 2>&1 &
	started+=($!)
	btcd_url=http://127.0.0.1:$port
	await $! "$dir/btcd.log" listening "$port"
}

# ready PORT: whether GET /readyz answers 200.
ready() {
	local status
	exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
	printf 'GET /readyz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
	read -r -t 5 status <&3 || status=''
	exec 3>&-
	[[ "$status" == *' 200 '* ]]
}

sim_up() {
	[ -s "$sim_credentials" ] && (ready "$sim_port") 2>/dev/null
}

# start_sim DIR: bin/cloister-sim on a store of its own. More settings come through the environment.
start_sim() {
	sim_port=$(free_port)
	sim_credentials=$1/credentials.json
	CLOISTER_DATA_DIR=$1 CLOISTER_API_ADDR=127.0.0.1:$sim_port CLOISTER_AUTH_PROXY_ADDR=127.0.0.1:$(free_port) \
		bin/cloister-sim >"$1.log" 2>&1 &
	sim=$!
	started+=("$sim")
	await "$sim" "$1.log" sim_up
}
