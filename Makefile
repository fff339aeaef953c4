# Cloister. `make run` and `make test` need Go and nothing else; what the other targets lack is told at their end.

GO  ?= go
BIN := bin

# runtime/secret wipes what key operations leave in registers, stacks and freed memory. A toolchain without the
# experiment builds the plain version of the same code.
export GOEXPERIMENT := $(shell GOEXPERIMENT=runtimesecret $(GO) version >/dev/null 2>&1 && echo runtimesecret)

# No paths and no version control stamp: the same source gives the same bytes in every directory. Tests and analysers
# are told as much, so that they compile nothing a second time.
BUILD := $(GO) build -trimpath -buildvcs=false
export GOFLAGS := -trimpath $(GOFLAGS)

.PHONY: run build enclave eif app-eif test ci campaign test-vsock test-nitro check fuzz interop clean

run: build # settings for the simulator: make run ARGS='-data-dir /tmp/second -api-addr 127.0.0.1:9080'
	@$(BIN)/cloister-sim $(ARGS)

build:
	@mkdir -p $(BIN)
	GO=$(GO) $(GO) run ./scripts/wasm
	$(BUILD) -o $(BIN)/cloister-sim ./sim
	$(BUILD) -o $(BIN)/cloister-host ./host
	$(BUILD) -o $(BIN)/cloister-verify ./attestation/verify
	$(BUILD) -o $(BIN)/cloister-replay ./enclave/replay

enclave: # the production enclave, static, the same bytes wherever it is built
	@mkdir -p $(BIN)
	GO=$(GO) scripts/enclave.sh $(BIN)/cloister-enclave

eif: # the enclave image and its measurements: make eif EIF_KERNEL=bzImage; eif/build.sh says what else can be set
	@$(BUILD) -o $(BIN)/cloister-eif ./eif
	@GO=$(GO) eif/build.sh $(BIN)/cloister.eif

app-eif: # the base image of customers' programs, by the same settings
	@$(BUILD) -o $(BIN)/cloister-eif ./eif
	@GO=$(GO) EIF_PACKAGE=./enclave/app/init eif/build.sh $(BIN)/cloister-app.eif

# What one waits for: checks, every test, each campaign once. ONLY=REGEXP chooses stages, here and in the campaign.
test: build
	@GO=$(GO) $(GO) run ./scripts/stages test '$(ONLY)'

# Everything, with what it needs started and stopped. What has passed on this commit is not run again, unless AGAIN=1.
campaign: build
	@GO=$(GO) $(GO) run ./scripts/stages campaign $(if $(AGAIN),-again) '$(ONLY)'

ci: # what CI will say of HEAD: .ci/run on a clean clone; FRESH=1 as on a new machine
	@scripts/ci.sh

test-vsock: # host and enclave in two virtual machines, joined by AF_VSOCK: part of make campaign too
	GO=$(GO) scripts/vsock/test.sh

test-nitro: # the images in QEMU's nitro-enclave machine, part of make campaign too; builds QEMU from source, once
	GO=$(GO) scripts/nitro/test.sh

check:
	GO=$(GO) scripts/check.sh

fuzz: # FUZZ_TOTAL and FUZZ_EACH are seconds: for all targets together and for one
	GO=$(GO) scripts/fuzz.sh

interop: build # the official SDKs, unmodified, against the simulator
	GO=$(GO) scripts/interop/run.sh

clean:
	rm -rf $(BIN) host/dashboard/verifier/verifier.wasm.gz host/dashboard/verifier/wasm_exec.js
