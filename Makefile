# Every target is one line; what it does lives in cargo, xtask or tools/. `make help` lists them.
.PHONY: help demo run test check bench build tools envoy generate golden fuzz lab-up lab-status lab-down lab-test chaos conformance nightly
help:     ; @sed -n '/^help/d; s/^\([a-z-]*\): .*# /  make \1\t/p' Makefile | expand -t 20
demo:     envoy ; @tools/demo # build, start the quickstart with a real Envoy, edit a route, show the answer
run:      envoy ; @cargo run --release --package chancery -- run --dir examples/quickstart # serve the quickstart in the foreground
test:     tools ; @tools/test # all tests, the ones with a real Envoy included
check:    ; @tools/check # format, lints, docs, walls, generated files, licences
bench:    envoy ; @tools/bench $(B) # benchmarks: one JSON line per figure (B=B2 for one; B12, B13 and idle are in a cluster)
build:    ; cargo build --release --package chancery # target/release/chancery
tools:    envoy ; @tools/install-grpc-clients && tools/install-lab && tools/install-definitions && tools/install-helm # what the tests need on this machine, pinned, into .tools/
envoy:    ; @tools/install-envoy # the pinned Envoy only, into .tools/
generate: envoy ; cargo xtask proto && cargo xtask schemas && tools/install-helm && UPDATE=1 cargo test --package tests --test chart is_generated # rewrite generated files from their pinned inputs
golden:   envoy ; UPDATE=1 cargo test --package tests --test golden # rewrite the golden corpus' outputs
fuzz:     ; @tools/fuzz # short runs of every fuzz target (needs the nightly toolchain)
lab-up:     ; @tools/install-lab && cargo run --package lab -- up # a Kubernetes of real programs without containers (lab/README.md)
lab-status: ; @cargo run --quiet --package lab -- status # what of it runs
lab-down:   ; @cargo run --quiet --package lab -- down # end it; nothing is left
lab-test: tools ; @tools/test --package lab # the tests in a cluster only
chaos:    tools ; @CHAOS=full tools/test --package lab --test chaos # a cluster under load while everything fails and is replaced: API server away for 60 s, 100 backends
conformance: ; @tools/conformance $(if $(PROFILE),--profile $(PROFILE)) $(if $(TEST),--test $(TEST)) $(if $(PUBLISH),--publish) # the official suite, in a lab of its own (PROFILE=, TEST= narrow it, RUNS= repeats it, CHANNEL=, GATEWAY_API= choose it)
nightly: tools ; @tools/nightly $(PART) # what is too long for each change (PART=attacks, chaos or conformance; an hour each at most)
