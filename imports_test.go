package cloister_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "cloister/"

// A row says what a package may import besides the standard library: packages of ours, packages of others by the short
// names below, and what its tests may import on top of that and of the package itself. A name that ends in /... means the
// package and all below it, one that begins with - is taken out again. Changing a row is changing the design.
//
// A package of ours whose name ends in test is test support: whatever the rows say, only tests and other test support
// import it.
type row struct{ from, ours, theirs, tests string }

var table = []row{
	// Anyone can check.
	{"attestation", "attestation/commitment attestation/tlog", "cbor nitrite", "attestation/tlog/tlogtest"},
	{"attestation/commitment", "", "", ""},
	{"attestation/verify", "attestation attestation/client attestation/monitor attestation/programs attestation/request enclave/decode enclave/lint shared/commandline shared/tvc", "", "attestation/commitment host/api host/store host/store/sqlite host/tiles shared/tvc/tvctest shared/wire sim/client sim/laptop sim/nsm sim/rig"},
	{"attestation/monitor", "attestation attestation/request attestation/tlog", "x/mod", "attestation/tlog/tlogtest sim/witness"},
	{"attestation/checks", "attestation", "", ""},
	{"attestation/programs", "attestation attestation/commitment shared/tvc", "", ""},
	{"attestation/bundle", "attestation", "", ""},                                // clients import it
	{"attestation/transfer", "attestation/bundle", "base58 bip39 secp256k1", ""}, // what the dashboard asks
	{"attestation/wasm", "attestation/checks attestation/transfer enclave/decode enclave/editor enclave/lint", "", ""},
	{"attestation/tlog", "", "cbor merkle x/mod", "attestation/tlog/tlogtest"},
	{"attestation/tlog/tlogtest", "attestation/tlog", "x/mod", ""},                                // makes logged proofs
	{"attestation/request", "", "secp256k1", "attestation attestation/client sim/client sim/rig"}, // clients import it, ours too
	{"attestation/client", "attestation", "", "attestation/request sim/client sim/laptop sim/rig"},

	// The image.
	{"eif/cpio", "", "", ""},
	{"eif/image", "", "cbor", ""},
	{"eif", "eif/cpio eif/image attestation shared/commandline", "", ""},

	// What crosses.
	{"shared/wire", "", "cbor", ""},

	// What signer, host and enclaves of customers' programs tell each other.
	{"shared/tvc", "", "", ""},
	{"shared/tvc/tvctest", "shared/tvc", "", ""}, // makes apps
	{"shared/program", "shared/tvc", "", ""},     // customers' programs import it

	// What both processes run under.
	{"shared/collector", "", "", ""},
	{"shared/slack", "", "", ""},
	{"shared/yield", "", "x/sys", ""},

	// Ports for the tests of both.
	{"shared/porttest", "", "", ""},

	// Which addresses both take for public.
	{"shared/internet", "", "", ""},

	// What tests measure time by.
	{"shared/clocktest", "", "", ""},

	// What both count requests with.
	{"shared/pace", "", "", ""},

	// What their programs read of the environment.
	{"shared/spelling", "", "", ""},
	{"shared/variables", "shared/spelling", "", ""},

	// How their command lines read.
	{"shared/commandline", "", "", ""},

	// The enclave, bottom to top: a package imports only what stands above it here.
	{"enclave/internal/insecure", "", "", ""},
	{"enclave/internal/fault", "", "", ""},
	{"enclave/internal/strictjson", "enclave/internal/fault", "", ""},
	{"enclave/internal/tally", "", "", ""},
	{"enclave/internal/erase", "enclave/internal/tally", "", ""},
	{"enclave/internal/secret", "enclave/internal/erase", "", ""},
	{"enclave/internal/secret/secrettest", "enclave/internal/secret", "", ""}, // secrets of bytes that a test knows
	{"enclave/internal/shamir", "enclave/internal/secret", "", ""},
	{"enclave/internal/der", "", "", ""},
	{"enclave/internal/p256", "enclave/internal/tally enclave/internal/der enclave/internal/erase enclave/internal/secret", "", ""},
	{"enclave/internal/seal", "enclave/internal/tally enclave/internal/insecure enclave/internal/secret", "", ""},
	{"enclave/internal/policy", "enclave/internal/fault", "", ""},
	{"enclave/internal/policy/policytest", "", "", "enclave/internal/policy"}, // a second evaluator
	{"enclave/internal/webauthn", "enclave/internal/tally enclave/internal/strictjson", "cbor", "sim/authenticator"},
	{"enclave/internal/org", "enclave/internal/fault attestation/tlog", "cbor", ""},
	{"enclave/internal/chain", "enclave/internal/p256 enclave/internal/fault", "base58 secp256k1 x/crypto", "enclave/internal/chain/... enclave/internal/keys enclave/internal/policy enclave/internal/secret"},
	{"enclave/internal/chain/rlp", "", "", ""}, // the encoding of two chains
	{"enclave/internal/chain/addressonly", "enclave/internal/chain", "base58 bech32 x/crypto", "enclave/internal/fault"},
	{"enclave/internal/chain/show", "enclave/internal/chain", "", ""},
	{"enclave/internal/chain/btc", "enclave/internal/chain enclave/internal/chain/show enclave/internal/der enclave/internal/fault", "bech32 secp256k1", "x/crypto"},
	{"enclave/internal/chain/eth", "enclave/internal/chain enclave/internal/chain/rlp enclave/internal/chain/show enclave/internal/strictjson enclave/internal/fault", "secp256k1", "x/crypto"},
	{"enclave/internal/chain/sol", "enclave/internal/chain enclave/internal/chain/show enclave/internal/strictjson enclave/internal/fault", "base58 edwards25519", ""},
	{"enclave/internal/chain/spark", "enclave/internal/chain", "secp256k1", ""},
	{"enclave/internal/chain/tempo", "enclave/internal/chain enclave/internal/chain/rlp enclave/internal/chain/show", "", "enclave/internal/fault secp256k1 x/crypto"},
	{"enclave/internal/chain/tron", "enclave/internal/chain enclave/internal/chain/show", "base58", "enclave/internal/fault protowire x/crypto"},
	{"enclave/internal/decoded", "-enclave/internal/chain/addressonly -enclave/internal/chain/reference -enclave/internal/chain/rlp -enclave/internal/chain/spark enclave/internal/chain/... enclave/internal/fault enclave/internal/keys enclave/internal/strictjson", "", ""},
	{"enclave/internal/keys", "enclave/internal/tally enclave/internal/p256 enclave/internal/chain enclave/internal/chain/spark enclave/internal/policy enclave/internal/fault enclave/internal/erase enclave/internal/secret shared/tvc",
		"secp256k1 schnorr bip39 bigmod x/crypto", "base58"},
	{"enclave/internal/bundle", "enclave/internal/tally enclave/internal/p256 enclave/internal/strictjson enclave/internal/fault enclave/internal/secret", "base58", ""},
	{"enclave/internal/login", "enclave/internal/tally enclave/internal/der enclave/internal/p256 enclave/internal/strictjson enclave/internal/bundle enclave/internal/fault enclave/internal/secret", "", "sim/idp"},
	{"enclave/internal/onramp", "enclave/internal/p256 enclave/internal/login enclave/internal/strictjson enclave/internal/fault enclave/internal/secret", "", ""},
	{"enclave/internal/billing", "enclave/internal/org enclave/internal/login enclave/internal/secret enclave/internal/strictjson enclave/internal/fault", "", "enclave/internal/secret/secrettest"},
	{"enclave/internal/program", "enclave/internal/strictjson enclave/internal/fault enclave/internal/secret shared/tvc", "", "enclave/internal/secret/secrettest"},
	{"enclave/internal/stamp", "enclave/internal/tally enclave/internal/der enclave/internal/p256 enclave/internal/webauthn enclave/internal/strictjson enclave/internal/fault enclave/internal/insecure", "secp256k1 x/crypto", "sim/authenticator"},
	{"enclave/internal/webhook", "enclave/internal/tally enclave/internal/secret", "", "attestation"},
	{"enclave/internal/boot", "enclave/internal/seal attestation enclave/internal/erase enclave/internal/secret enclave/internal/shamir", "cbor", ""},
	{"enclave/internal/log", "enclave/internal/insecure enclave/internal/secret attestation/tlog shared/wire", "merkle x/mod", "enclave/internal/secret/secrettest"},
	{"enclave/internal/history", "enclave/internal/org attestation/tlog", "cbor", ""}, // what an exported history is written in
	{"enclave/internal/fairqueue", "enclave/internal/org", "", ""},
	{"enclave/internal/ledger", "enclave/internal/fairqueue enclave/internal/org enclave/internal/log enclave/internal/seal enclave/internal/secret enclave/internal/fault enclave/internal/insecure attestation/tlog shared/wire",
		"merkle", "cbor sim/witness"},
	{"enclave/internal/activity", "enclave/internal/chain enclave/internal/chain/show enclave/internal/program enclave/internal/org enclave/internal/stamp enclave/internal/policy enclave/internal/keys enclave/internal/secret enclave/internal/bundle enclave/internal/login " +
		"enclave/internal/onramp enclave/internal/billing enclave/internal/strictjson enclave/internal/fault", "",
		"enclave/internal/activity/... sim/authenticator"}, // its tests ask for kinds of all rooms
	{"enclave/internal/activity/tag", "enclave/internal/chain/show enclave/internal/org enclave/internal/activity enclave/internal/fault", "", "enclave/internal/activity/activitytest"},
	{"enclave/internal/activity/wallet", "enclave/internal/decoded enclave/internal/org enclave/internal/activity enclave/internal/activity/tag enclave/internal/policy enclave/internal/keys " +
		"enclave/internal/secret enclave/internal/bundle enclave/internal/chain/... enclave/internal/login enclave/internal/onramp enclave/internal/fault", "",
		"enclave/internal/activity/activitytest enclave/internal/activity/kinds protowire secp256k1 x/crypto"},
	{"enclave/internal/activity/user", "enclave/internal/chain/show enclave/internal/org enclave/internal/activity enclave/internal/activity/tag enclave/internal/policy enclave/internal/chain " +
		"enclave/internal/login enclave/internal/webauthn enclave/internal/fault", "",
		"enclave/internal/activity/activitytest enclave/internal/activity/kinds sim/authenticator"},
	{"enclave/internal/activity/organization", "enclave/internal/chain/show enclave/internal/org enclave/internal/stamp enclave/internal/activity enclave/internal/activity/user enclave/internal/activity/wallet " +
		"enclave/internal/billing enclave/internal/policy enclave/internal/login enclave/internal/webauthn enclave/internal/strictjson enclave/internal/fault shared/internet", "",
		"enclave/internal/activity/activitytest enclave/internal/activity/kinds"},
	{"enclave/internal/activity/auth", "enclave/internal/chain/show enclave/internal/org enclave/internal/activity enclave/internal/activity/user enclave/internal/activity/organization " +
		"enclave/internal/policy enclave/internal/secret enclave/internal/bundle enclave/internal/login enclave/internal/fault", "",
		"enclave/internal/activity/activitytest enclave/internal/activity/kinds sim/authenticator"},
	{"enclave/internal/activity/tvc", "attestation/programs enclave/internal/chain/show enclave/internal/keys enclave/internal/org enclave/internal/activity enclave/internal/activity/wallet enclave/internal/policy enclave/internal/program " +
		"enclave/internal/shamir enclave/internal/secret enclave/internal/fault shared/tvc", "", "attestation/commitment enclave/internal/activity/activitytest enclave/internal/activity/kinds enclave/internal/secret/secrettest sim/nsm"},
	{"enclave/internal/activity/kinds", "enclave/internal/activity enclave/internal/activity/tag enclave/internal/activity/tvc enclave/internal/activity/wallet enclave/internal/activity/user " +
		"enclave/internal/activity/organization enclave/internal/activity/auth", "", ""},
	{"enclave/internal/activity/apitest", "", "", ""}, // the description of the interface
	{"enclave/internal/activity/activitytest", "enclave/internal/org enclave/internal/activity enclave/internal/activity/apitest " +
		"enclave/internal/activity/kinds enclave/internal/policy enclave/internal/keys enclave/internal/billing " +
		"enclave/internal/secret/... enclave/internal/bundle enclave/internal/login enclave/internal/fault enclave/internal/stamp sim/authenticator", "secp256k1", ""}, // an organization for the tests of all rooms
	{"enclave/internal/query", "enclave/internal/activity/tvc enclave/internal/chain/show enclave/internal/program shared/tvc enclave/internal/org enclave/internal/stamp enclave/internal/activity enclave/internal/activity/wallet enclave/internal/activity/organization " +
		"enclave/internal/activity/kinds enclave/internal/policy enclave/internal/login enclave/internal/onramp enclave/internal/billing enclave/internal/chain " +
		"enclave/internal/strictjson enclave/internal/fault", "", "enclave/internal/activity/apitest enclave/internal/activity/activitytest"},
	{"enclave/internal/authproxy", "enclave/internal/org enclave/internal/activity enclave/internal/activity/wallet enclave/internal/activity/user " +
		"enclave/internal/activity/organization enclave/internal/activity/auth enclave/internal/login enclave/internal/strictjson enclave/internal/fault", "",
		"enclave/internal/activity/kinds enclave/internal/stamp"},
	{"enclave/internal/netclient", "enclave/internal/strictjson enclave/internal/secret", "", ""},
	{"enclave/internal/settings", "enclave/internal/billing enclave/internal/chain/show enclave/internal/decoded enclave/internal/erase enclave/internal/fault enclave/internal/login enclave/internal/netclient enclave/internal/onramp enclave/internal/program enclave/internal/secret enclave/internal/strictjson shared/pace shared/tvc", "", ""},
	{"enclave/internal/kms", "enclave/internal/erase enclave/internal/secret", "", ""},
	{"enclave/internal/nsm", "", "cbor", "sim/nsm"},
	{"enclave/internal/pid1", "", "", ""},
	{"enclave/internal/guest", "enclave/internal/nsm enclave/internal/pid1", "vsock x/sys", ""},
	// The rooms of core, which nobody else may enter: what a call is not decided in.
	{"enclave/core/internal/tenant", "enclave/internal/org", "", ""},
	{"enclave/core/internal/responses", "enclave/internal/org", "", ""},
	{"enclave/core/internal/link", "enclave/internal/ledger enclave/internal/fault shared/wire", "", ""},
	{"enclave/core/internal/ranges", "enclave/core/internal/link enclave/internal/org enclave/internal/ledger enclave/internal/seal enclave/internal/strictjson " +
		"enclave/internal/fault shared/wire", "", ""},
	{"enclave/core/internal/providers", "enclave/internal/program enclave/internal/secret enclave/core/internal/link enclave/core/internal/tenant enclave/internal/org enclave/internal/ledger enclave/internal/activity " +
		"enclave/internal/login enclave/internal/onramp enclave/internal/billing enclave/internal/query enclave/internal/netclient enclave/internal/settings enclave/internal/fault shared/pace shared/wire", "", ""},
	{"enclave/core/internal/outbox", "enclave/internal/chain/show enclave/internal/activity/tvc enclave/internal/program shared/tvc enclave/core/internal/link enclave/core/internal/ranges enclave/core/internal/providers enclave/internal/org enclave/internal/ledger " +
		"enclave/internal/activity enclave/internal/activity/kinds enclave/internal/billing enclave/internal/login enclave/internal/netclient enclave/internal/settings enclave/internal/webhook " +
		"enclave/internal/erase enclave/internal/seal enclave/internal/fault shared/wire", "", ""},
	{"enclave/core/internal/proxy", "enclave/core/internal/ranges enclave/core/internal/providers enclave/internal/org enclave/internal/ledger " +
		"enclave/internal/activity enclave/internal/activity/kinds enclave/internal/authproxy enclave/internal/login enclave/internal/stamp enclave/internal/p256 " +
		"enclave/internal/erase enclave/internal/secret enclave/internal/fault enclave/internal/settings shared/wire shared/pace", "", ""},
	{"enclave/core/internal/lifecycle", "enclave/internal/fairqueue enclave/core/internal/link enclave/core/internal/ranges enclave/internal/org enclave/internal/ledger enclave/internal/boot " +
		"enclave/internal/kms enclave/internal/p256 enclave/internal/seal enclave/internal/secret enclave/internal/shamir enclave/internal/settings enclave/internal/strictjson " +
		"enclave/internal/fault attestation attestation/commitment attestation/tlog shared/wire", "", ""},
	{"enclave/core", "enclave/core/internal/... enclave/internal/... -enclave/internal/nsm -enclave/internal/pid1 -enclave/internal/guest attestation attestation/tlog shared/tvc shared/wire shared/pace", "",
		"attestation/request host/store/... sim/client sim/laptop sim/nsm sim/rig"},

	// The enclave of a customer's program, which knows nothing of the signer's but how it boots and what a share is.
	{"enclave/app", "attestation/commitment enclave/internal/secret enclave/internal/shamir enclave/internal/strictjson shared/tvc", "",
		"attestation attestation/programs shared/program shared/tvc/tvctest sim/nsm"},
	{"enclave/app/sandbox", "enclave/app shared/tvc", "x/sys", "shared/program"},
	{"enclave/app/init", "enclave/app enclave/app/sandbox enclave/internal/guest shared/tvc", "", ""},

	// A stranger decides an exported history again: never linked by the enclave.
	{"enclave/internal/replay", "enclave/core enclave/internal/history enclave/internal/org attestation attestation/tlog", "x/mod", "attestation/request base58 containerregistry enclave/internal/activity enclave/internal/bundle enclave/internal/fault enclave/internal/onramp enclave/internal/secret shared/clocktest shared/pace shared/tvc shared/wire sim/client sim/passcode sim/rig"},
	{"enclave/replay", "shared/commandline attestation/request attestation/tlog enclave/core enclave/internal/activity enclave/internal/history enclave/internal/onramp enclave/internal/org enclave/internal/replay", "", "sim/rig"},

	// Advice about policies, by their own compiler: for tools outside, never linked by the enclave.
	{"enclave/decode", "enclave/internal/activity enclave/internal/activity/wallet enclave/internal/chain enclave/internal/chain/show enclave/internal/decoded enclave/internal/fault enclave/internal/org enclave/internal/strictjson", "", ""},
	{"enclave/lint", "enclave/internal/policy", "", ""},
	{"enclave/editor", "enclave/internal/policy enclave/lint shared/spelling", "", ""},

	{"enclave", "enclave/core enclave/internal/guest shared/collector shared/slack shared/yield", "", ""},

	// The host, which knows nothing of the enclave but shared/wire.
	{"host/store", "shared/wire host/store/tree", "", ""},
	{"host/store/tree", "attestation/tlog shared/wire", "merkle", "host/store/... sim/witness/witnesstest x/mod"},
	{"host/store/sqlite", "host/store host/store/tree shared/wire", "sqlite goose", "host/store/storetest"},
	{"host/store/postgres", "host/store host/store/tree shared/wire", "pgx goose", "host/store/storetest"},
	{"host/store/storetest", "attestation/tlog host/store shared/wire", "pgx merkle", ""},
	{"host/store/open", "host/store host/store/sqlite host/store/postgres", "", "host/store/..."},
	{"host/outage", "", "", ""},
	{"host/link", "host/outage host/store shared/wire", "vsock", "host/store/..."},
	{"host/egress", "host/outage host/store shared/internet shared/wire", "base58 smtp sasl", "host/store/..."},
	{"host/registry", "shared/tvc shared/wire", "containerregistry", ""},
	{"host/api", "host/cosign host/link host/outage host/tiles shared/wire shared/commandline shared/pace", "mux prometheus", "host/leaves/leavestest host/store/... host/witness"},
	{"host/backup", "host/leaves host/logcheck host/store host/store/tree shared/wire", "minio", "attestation/tlog attestation/tlog/tlogtest host/leaves/leavestest host/store/..."},
	{"host/drill", "", "secp256k1 base58 x/crypto", ""}, // holds signatures against addresses
	{"host/cert", "", "x/crypto", ""},
	{"host/programs", "shared/wire host/link shared/tvc", "", "shared/tvc/tvctest"},
	{"host/dashboard", "", "", ""},
	{"host/witness", "attestation/tlog shared/wire", "", "sim/witness/..."}, // reads policies and verifies nothing
	{"host/leaves", "attestation/tlog host/store/tree shared/wire", "", "host/store/... host/leaves/leavestest merkle x/mod"},
	{"host/leaves/leavestest", "attestation/tlog host/store host/store/tree shared/wire", "", ""},
	{"host/heads", "attestation/tlog host/leaves host/store host/witness shared/wire", "", "host/store/... host/leaves/leavestest sim/witness/..."},
	{"host/logcheck", "attestation/tlog host/store host/store/tree host/witness shared/wire", "", "attestation/tlog/tlogtest"},
	{"host/tail", "host/leaves host/logcheck host/store host/store/tree shared/wire", "", "attestation/tlog host/store/... sim/witness/witnesstest"},
	{"host/tiles", "host/leaves host/store host/store/tree host/witness shared/wire", "", "attestation/tlog host/store/... host/leaves/leavestest sim/witness/... merkle x/mod"},
	{"host/cosign", "attestation/tlog host/leaves host/store host/witness shared/wire", "", "host/store/... host/leaves/leavestest sim/witness/..."},
	{"host", "attestation/request host/... shared/wire shared/commandline shared/collector shared/pace shared/slack shared/variables", "", "attestation/tlog sim/witness/..."},

	// The image in QEMU.
	{"scripts/internal/guest", "", "", ""},
	{"scripts/internal/operators", "attestation", "", ""},
	{"scripts/nitro", "attestation attestation/commitment eif/cpio scripts/internal/guest sim/vhostvsock", "cbor", ""},
	{"scripts/nitro/parent", "attestation scripts/internal/operators scripts/internal/parent shared/wire", "vsock", ""},
	{"scripts/nitro/apphost", "attestation attestation/commitment attestation/programs host/programs scripts/internal/parent shared/tvc", "cbor nitrite vsock", ""},
	{"scripts/internal/parent", "attestation sim/guest/setup", "vsock x/sys", ""},

	// Load tests and others are clients.
	{"scripts/internal/deployment", "attestation/request", "", ""}, // what those below share
	{"scripts/load/check", "attestation attestation/request scripts/internal/deployment", "secp256k1 x/crypto", ""},
	{"scripts/load/large", "attestation/request host/link host/store/open scripts/internal/deployment shared/wire", "", ""}, // fills as a host would
	{"scripts/load/suborgs", "attestation/request scripts/internal/deployment", "", ""},
	{"scripts/load/touched", "attestation/request scripts/internal/deployment", "", ""},
	{"scripts/tls", "", "", ""},
	{"scripts/wasm", "", "", ""},
	{"scripts/stages", "", "x/sys", ""},
	{"scripts/sending", "attestation/request scripts/internal/deployment", "secp256k1 x/crypto", ""},
	{"scripts/webhooks", "attestation scripts/internal/deployment", "", ""},
	{"scripts/vsock", "attestation/request attestation attestation/commitment eif/cpio scripts/internal/guest scripts/internal/operators sim/laptop sim/nsm sim/script sim/vhostvsock", "", ""},

	// A laptop instead of Nitro: the only place that sees both sides.
	{"sim/nsm", "", "cbor", "attestation attestation/commitment nitrite"},
	{"sim/cuse", "", "", ""},
	{"sim/guest/setup", "", "x/sys", ""},
	{"sim/guest", "sim/cuse sim/guest/setup sim/nsm", "vsock x/sys", ""},
	{"sim/vhostvsock", "", "x/sys", ""},
	{"sim/cosigner", "shared/program", "", ""}, // an example of a program
	{"sim/beside", "enclave/app enclave/app/sandbox sim/laptop sim/nsm", "", "attestation attestation/programs containerregistry host/egress host/programs host/registry shared/tvc shared/tvc/tvctest sim/client sim/rig"},
	{"sim/loopback", "", "", ""},
	{"sim/inbox", "sim/loopback", "smtp", ""},
	{"sim/idp", "sim/loopback", "jose", ""},
	{"sim/laptop", "attestation/request enclave/core attestation attestation/tlog shared/wire shared/yield sim/nsm sim/idp", "x/crypto", ""},
	{"sim/script", "attestation/request sim/laptop sim/passcode", "secp256k1", "sim/client sim/rig"},
	{"sim/rig", "attestation attestation/commitment attestation/tlog enclave/core host/... shared/tvc shared/wire sim/client sim/laptop sim/nsm sim/witness", "", "attestation/request base58 containerregistry enclave/decode shared/pace sim/authenticator sim/client sim/inbox"},
	{"sim/hostile", "host/... shared/wire", "", "enclave/core sim/client sim/laptop sim/rig"},
	{"sim/logmodel", "", "", ""},
	{"sim/witness", "attestation/tlog sim/loopback", "merkle x/mod", "attestation/tlog/tlogtest enclave/core host/store/tree host/tiles host/witness shared/wire sim/client sim/laptop sim/rig sim/witness/witnesstest"},
	{"sim/witness/witnesstest", "attestation/tlog host/store/tree shared/porttest shared/wire sim/witness", "merkle sqlite x/crypto x/mod", ""}, // starts others' too
	{"sim/linear", "", "", "attestation/tlog enclave/core porcupine shared/wire sim/client sim/rig"},
	{"sim/restart", "", "", "attestation attestation/tlog enclave/core host/cosign host/link host/store host/store/sqlite host/store/tree shared/wire sim/client sim/laptop sim/logmodel sim/witness"},
	{"sim/client", "attestation/request shared/wire sim/authenticator sim/laptop", "", ""}, // what tests ask with
	{"sim/process", "", "", ""},
	{"sim/sweep", "", "", "attestation enclave/core host/... shared/wire sim/client sim/rig"},
	{"sim/budget", "", "", "enclave/core host/store/sqlite shared/wire sim/client sim/rig"},
	{"sim/fairness", "attestation/request enclave/core host/link shared/collector shared/pace shared/slack shared/wire sim/client sim/laptop sim/process sim/rig", "", ""},
	{"sim/backup", "", "", "host/... sim/client sim/laptop sim/rig"},
	{"sim/crash", "", "", "attestation attestation/tlog host/... shared/wire sim/client sim/laptop sim/process sim/witness"},
	{"sim/passcode", "", "", ""},
	{"sim/handover", "", "", "attestation attestation/tlog enclave/core host/cosign host/heads host/link host/store host/store/sqlite host/store/tree host/witness shared/wire sim/client sim/laptop sim/nsm sim/rig sim/witness sim/witness/witnesstest"},
	{"sim/leak", "", "", "attestation/tlog base58 bip39 cbor host/... secp256k1 shared/wire sim/client sim/inbox sim/laptop sim/passcode sim/process sim/rig"},
	{"sim/authenticator", "", "cbor", ""},
	{"sim/matrix", "", "", "attestation/request base58 secp256k1 shared/wire sim/authenticator sim/client sim/passcode sim/rig"},
	{"sim/ranges", "", "", "attestation attestation/client enclave/core host/link host/store/... shared/wire sim/client sim/laptop sim/process sim/rig"},
	{"sim/votes", "", "", "attestation enclave/core shared/wire sim/client sim/rig"},
	{"sim/policies", "", "", "attestation/request base58 bech32 enclave/core sim/authenticator sim/client sim/passcode sim/rig"},
	{"sim/proxy", "", "", "enclave/core host/store host/store/sqlite shared/pace shared/wire sim/authenticator sim/client sim/hostile sim/inbox sim/passcode sim/rig"},
	{"sim/shares", "", "", "attestation attestation/checks attestation/client attestation/monitor attestation/request attestation/tlog enclave/core host/... shared/wire sim/client sim/laptop sim/nsm sim/rig"},
	{"sim/sending", "", "", "attestation base58 enclave/decode host/egress host/store/... shared/wire sim/client sim/hostile sim/rig x/crypto"},
	{"sim/webhooks", "", "", "attestation host/egress host/store/... shared/wire sim/client sim/hostile sim/laptop sim/rig"},
	{"sim", "enclave/core host/... attestation attestation/tlog shared/wire shared/commandline shared/collector shared/pace shared/slack shared/variables sim/...", "", ""},
}

// Others' modules by the names of the table. A module is added with its reason in a commit of its own.
var modules = map[string]string{
	"base58":            "github.com/mr-tron/base58",                     // addresses; nothing in the standard library
	"bech32":            "github.com/btcsuite/btcd/btcutil/bech32",       // BIP-173 and BIP-350
	"bigmod":            "filippo.io/bigmod",                             // the standard library's constant-time arithmetic, which it does not export
	"bip39":             "github.com/tyler-smith/go-bip39",               // the word list
	"cbor":              "github.com/fxamacker/cbor/v2",                  // strict CBOR with limits
	"edwards25519":      "filippo.io/edwards25519",                       // the standard library's, which it does not export: is an address of Solana a point
	"goose":             "github.com/pressly/goose/v3",                   // migrations, with a lock between hosts
	"jose":              "github.com/go-jose/go-jose/v4",                 // tokens and key sets of the simulator's identity provider
	"merkle":            "github.com/transparency-dev/merkle",            // RFC 6962 proofs
	"containerregistry": "github.com/google/go-containerregistry",        // images of customers' programs
	"minio":             "github.com/minio/minio-go/v7",                  // backups in an S3-compatible store
	"mux":               "github.com/gorilla/mux",                        // routes of the host
	"nitrite":           "github.com/hf/nitrite",                         // Nitro attestation documents
	"pgx":               "github.com/jackc/pgx/v5",                       // PostgreSQL
	"porcupine":         "github.com/anishathalye/porcupine",             // linearizability of histories
	"prometheus":        "github.com/prometheus/client_golang",           // metrics of the host
	"protowire":         "google.golang.org/protobuf/encoding/protowire", // the wire format of protocol buffers, without their machinery
	"sasl":              "github.com/emersion/go-sasl",                   // log-in at mail servers, for smtp
	"schnorr":           "github.com/btcsuite/btcd/btcec/v2/schnorr",     // BIP-340 over the same curve
	"secp256k1":         "github.com/decred/dcrd/dcrec/secp256k1/v4",     // the curve that the standard library lacks
	"smtp":              "github.com/emersion/go-smtp",                   // mail that arrives at the simulator, and mails that the enclave leaves to the host
	"sqlite":            "modernc.org/sqlite",                            // the embedded store, without cgo
	"vsock":             "github.com/mdlayher/vsock",                     // the way into the enclave
	"x/sys":             "golang.org/x/sys",                              // the system calls of an enclave that is PID 1
	"x/mod":             "golang.org/x/mod",                              // signed notes, for those who verify the log; a second verifier of proofs in tests
	"x/crypto":          "golang.org/x/crypto",                           // Keccak-256; ACME for the host; scrypt for the seed file of the simulator; the agent of a witness under test
}

// any test may use these.
var testsOfAny = []string{"pgregory.net/rapid", "go.uber.org/goleak", module + "enclave/internal/secret/secrettest", module + "shared/clocktest", module + "shared/porttest"}

// The enclave's rooms are handed clock, randomness, store and network; what they could take for themselves they may not
// import. Its main and tests may.
var handedIn = []string{"crypto/rand", "database/sql", "flag", "log", "math/rand", "math/rand/v2", "net/http", "os", "os/exec",
	"os/signal", "plugin", "syscall", "testing", "unsafe"}

// The device itself, the machine around it, what confines a program there, and commands take for themselves
// what others are handed; test support takes what tests take.
var taking = []string{"enclave/internal/nsm", "enclave/internal/guest", "enclave/app/sandbox", "enclave/app/init", "enclave/replay"}

var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

func TestImports(t *testing.T) {
	rows := map[string]row{}
	for _, r := range table {
		rows[r.from] = r
	}
	seen := map[string]bool{}
	product, tests := map[string][]string{}, map[string][]string{} // what a package's files import
	for _, path := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			continue // these tests
		}
		r, ok := rows[dir]
		if !ok {
			t.Errorf("%s: the table has no row for %s", path, dir)
			continue
		}
		seen[dir] = true
		if names := r.check(t, path); strings.HasSuffix(path, "_test.go") {
			tests[dir] = append(tests[dir], names...)
		} else {
			product[dir] = append(product[dir], names...)
		}
	}
	for from, r := range rows {
		for _, entry := range slices.Concat(unused(r.ours, product[from]), unused(r.theirs, product[from]), unused(r.tests, tests[from])) {
			t.Errorf("the row of %s allows %s, which nothing in it imports", from, entry)
		}
	}
	for from := range rows {
		if !seen[from] {
			t.Errorf("the table has a row for %s, where there is no package", from)
		}
	}
}

// unused are the entries of a cell that allow none of the imports.
func unused(cell string, imports []string) (all []string) {
	for _, entry := range strings.Fields(cell) {
		if !strings.HasPrefix(entry, "-") && !slices.ContainsFunc(imports, func(name string) bool { return listed(entry, name) }) {
			all = append(all, entry)
		}
	}
	return all
}

// check holds the imports of one file against the row of its package, and gives them.
func (r row) check(t *testing.T, path string) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	test := strings.HasSuffix(path, "_test.go")
	internal := strings.HasPrefix(r.from, "enclave/") && !slices.Contains(taking, r.from) && !support(module+r.from)
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Error(err)
			continue
		}
		names = append(names, name)
		switch {
		case support(name) && !test && !support(module+r.from):
			t.Errorf("%s imports %s, which is for tests", path, name)
		case test && r.testMay(name), r.may(name):
		case internal && !test && slices.Contains(handedIn, name):
			t.Errorf("%s imports %s: it is handed in, never taken", path, name)
		case !standard(name):
			t.Errorf("%s imports %s: not in the row of %s", path, name, r.from)
		}
	}
	if internal && !test {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, s.Sel.Name) {
					t.Errorf("%s uses time.%s: the clock is handed in", path, s.Sel.Name)
				}
			}
			return true
		})
	}
	return names
}

// support tells whether an import path is test support of ours.
func support(name string) bool {
	return strings.HasPrefix(name, module) && strings.HasSuffix(name, "test")
}

func (r row) may(name string) bool { return listed(r.ours, name) || listed(r.theirs, name) }

func (r row) testMay(name string) bool {
	return name == module+r.from || slices.Contains(testsOfAny, name) || listed(r.tests, name)
}

// listed tells whether a cell of the table names the import path.
func listed(cell, name string) bool {
	found := false
	for _, entry := range strings.Fields(cell) {
		entry, without := strings.CutPrefix(entry, "-")
		if m, ok := modules[entry]; ok {
			found = found || name == m || strings.HasPrefix(name, m+"/")
			continue
		}
		base, below := strings.CutSuffix(module+entry, "/...")
		if name == base || below && strings.HasPrefix(name, base+"/") {
			found = !without
		}
	}
	return found
}

// standard tells whether an import path is of the standard library: its first element has no dot and is not ours.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".") && first != strings.TrimSuffix(module, "/")
}

// goFiles are the Go files of this module, tests and every build tag included. Folders with a go.mod are other modules, and
// files of scripts that are no package say so with the tag "ignore".
func goFiles(t *testing.T) []string {
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".":
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") ||
				d.Name() == "testdata" || path == "bin" {
				return fs.SkipDir
			}
		case strings.HasSuffix(path, ".go"):
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(string(src), "//go:build ignore\n") {
				files = append(files, path)
			}
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d Go files found: %v", len(files), err)
	}
	return files
}

// What a row allows in vain is seen.
func TestUnusedEdges(t *testing.T) {
	imports := []string{"cloister/host/store", "github.com/gorilla/mux", "github.com/transparency-dev/merkle/proof"}
	if got := unused("host/... host/link mux merkle -host/api base58", imports); !slices.Equal(got, []string{"host/link", "base58"}) {
		t.Errorf("%q", got)
	}
}

// The table must be able to say no.
func TestTableRefuses(t *testing.T) {
	for _, c := range []struct {
		r    row
		name string
		may  bool
	}{
		{row{ours: "host/..."}, "cloister/host", true},
		{row{ours: "host/..."}, "cloister/host/store/sqlite", true},
		{row{ours: "host"}, "cloister/host/store", false},
		{row{ours: "host/..."}, "cloister/hosts", false},
		{row{ours: "enclave/internal/... -enclave/internal/nsm"}, "cloister/enclave/internal/keys", true},
		{row{ours: "enclave/internal/... -enclave/internal/nsm"}, "cloister/enclave/internal/nsm", false},
		{row{theirs: "merkle"}, "github.com/transparency-dev/merkle/proof", true},
		{row{theirs: "merkle"}, "github.com/transparency-dev/merkles", false},
		{row{}, "github.com/gorilla/mux", false},
	} {
		if c.r.may(c.name) != c.may {
			t.Errorf("%+v: %s allowed is %t", c.r, c.name, !c.may)
		}
	}
}
