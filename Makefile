# What CI runs and what you run are the same targets. `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tools, pinned here and nowhere else. `go run tool@version` resolves each
# in a module of its own, so that none of them appears in a go.mod of ours.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.17.0
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
KUBECTL_VALIDATE := sigs.k8s.io/kubectl-validate@v0.0.4

# How long each fuzz target runs, which ones, and which benchmarks.
FUZZTIME ?= 30s
FUZZ     ?= .
BENCH    ?= .

# Systems on which the code must compile beside the one it is built on.
CROSS := darwin freebsd windows

MODULES = $(shell go list -m -f '{{.Dir}}')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the commands as bin/elect and bin/electlab
	go build -trimpath -o bin/ ./cmd/elect ./lab/cmd/electlab

.PHONY: electlab
electlab: ## build bin/electlab with the machines of its page inside, so that it needs no Go toolchain
	go run ./lab/cmd/electlab page --write bin/page
	cp bin/page/machines.wasm.gz bin/page/wasm_exec.js lab/page/
	go build -trimpath -tags embedmachines -o bin/ ./lab/cmd/electlab

.PHONY: test
test: ## the tests of all modules that take seconds each; needs Go only
	go test work

# One package at a time: they judge what real processes do, and need the processors.
# LONG runs less: LONG=./test/chaos/...
LONG ?= work

.PHONY: long
long: ## all tests in full: storms, teeth, chaos, real servers, power loss, the checker; root, an hour or more (LONG=packages)
	ELECT_LONG=1 go test -count=1 -timeout 0 -p 1 $(LONG)
	ELECT_LONG=1 go test -count=1 -timeout 0 -tags mutants ./internal/runtime ./peer ./cmd/elect/internal/recipe/redis -run TestDrivingTeeth
	ELECT_LONG=1 go test -count=1 -timeout 0 -tags mutants ./internal/protocol/... -run TestMutants
	ELECT_LONG=1 go test -count=1 -timeout 0 -tags mutants ./lab/check -run 'Teeth$$'
	$(MAKE) adapters

# Outside of go.work: client-go compiles for minutes on a fresh machine, and nothing else needs it.
.PHONY: adapters
adapters: ## vet and test the modules for client-go and controller-runtime; compiles for minutes the first time
	@for dir in adapter/leaderelection adapter/controllerruntime; do \
		echo "go mod tidy -diff && go vet && go test   # $$dir"; \
		(cd "$$dir" && export GOWORK=off && go mod tidy -diff && go vet ./... && go test ./...) || exit 1; \
	done

.PHONY: race
race: ## the same under the race detector; needs a C compiler
	go test -race work

.PHONY: lint
lint: fmt vet staticcheck fix tidy vuln ## everything that reads the code and does not run it

.PHONY: fmt
fmt: ## gofmt has nothing to say
	@echo 'gofmt -l .'
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet work

.PHONY: staticcheck
staticcheck: ## staticcheck, by staticcheck.conf
	go run $(STATICCHECK) work

.PHONY: fix
fix: ## go fix finds nothing that is written more simply in current Go
	@echo 'go fix -diff work'
	@go fix -diff work || { echo "old forms found; run: go fix work"; exit 1; }

.PHONY: tidy
tidy: ## each go.mod and go.sum is what go mod tidy would write
	@for dir in $(MODULES); do \
		echo "go mod tidy -diff   # $$dir"; \
		(cd "$$dir" && GOWORK=off go mod tidy -diff) || { echo "not tidy; run: (cd $$dir && GOWORK=off go mod tidy)"; exit 1; }; \
	done

# An answer that cannot be had is not an answer: where the database of
# vulnerabilities is out of reach, this says so and goes on.
.PHONY: vuln
vuln: ## govulncheck, where its database can be reached
	@echo 'go run $(GOVULNCHECK) work'
	@if ! getent hosts vuln.go.dev >/dev/null 2>&1; then echo '!!! vuln.go.dev cannot be reached: VULNERABILITIES WERE NOT CHECKED !!!'; exit 0; fi; \
	log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	if go run $(GOVULNCHECK) work >"$$log" 2>&1; then cat "$$log"; \
	elif grep -q 'fetching vulnerabilities' "$$log"; then \
		cat "$$log"; \
		echo '!!! govulncheck could not reach its database: VULNERABILITIES WERE NOT CHECKED !!!'; \
	else cat "$$log"; exit 1; fi

# The tests beside these, of chaos and of fencing, are for Linux.
CROSSED = ./... ./cmd/elect/... ./electprom/... ./internal/cli/... ./lab/... ./peer/...

.PHONY: cross
cross: ## go vet for the other systems, and for the browser
	@for goos in $(CROSS); do echo "GOOS=$$goos go vet $(CROSSED)"; GOOS=$$goos go vet $(CROSSED); done
	GOOS=js GOARCH=wasm go vet ./lab/page/machines

.PHONY: generate
generate: ## write the generated files anew
	go generate work

# One line a ground; it goes on for hours, below all else that runs.
SEEDS    ?= 10000
PROTOCOL ?= .
GROUND   ?= .

.PHONY: sim-long
sim-long: ## hold the machines on each ground of the hunts and each profile for SEEDS seeds (PROTOCOL= GROUND=)
	@nice -n 19 go test ./lab/sim/teeth -count=1 -timeout 0 -v -run 'TestGroundsAreFair/^$(PROTOCOL)/^$(GROUND)' -seeds '$(SEEDS)' | grep -E --line-buffered 'seeds,|seed |^(ok|FAIL)'

.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp)
	go test -run '^$$' -bench '$(BENCH)' -benchmem work

# At a quiet machine: each round waits for eight leases. Other electors take turns with elect, and the tables of the docs
# are written from what is recorded.
ROUNDS ?= 5
STORES ?= .

.PHONY: bench-stores
bench-stores: ## measure takeovers of all back ends beside other electors, half an hour, and write the tables (ROUNDS=5 STORES=regexp)
	ELECT_LONG=1 go test ./test/fencing/leases -count=1 -timeout 0 -run '^$$' -bench 'BenchmarkFailover/$(STORES)' -benchtime $(ROUNDS)x -record
	go test ./test/fencing/leases -count=1 -run TestTakeovers -rewrite

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (FUZZ=regexp of names)
	@.ci/fuzz '$(FUZZTIME)' '$(FUZZ)'

# Anything of these that is set is handed on; docs/chaos.md tells of each.
CHAOS = $(if $(FOR),-for '$(FOR)') $(if $(SETUP),-setup '$(SETUP)') $(if $(NETWORK),-network '$(NETWORK)') $(if $(SEED),-seed '$(SEED)') \
	$(if $(FAULTS),-faults '$(FAULTS)') $(if $(MUTANT),-mutant '$(MUTANT)') $(if $(KEEP),-keep) $(if $(SCHEDULE),'$(SCHEDULE)')
GROUPS_CHAOS = $(if $(SEED),-seed '$(SEED)') $(if $(FAULTS),-faults '$(FAULTS)') $(if $(MUTANT),-mutant '$(MUTANT)') $(if $(KEEP),-keep)

.PHONY: chaos
chaos: ## break real processes (FOR=1m SETUP=peers-lan NETWORK= SEED= FAULTS= SCHEDULE= KEEP=)
	@go build -o bin/chaos ./test/chaos/run
	@bin/chaos $(CHAOS)

.PHONY: chaos-groups
chaos-groups: ## break the processes of a group for an hour, in two setups (FOR=30m each, SEED= FAULTS= KEEP=)
	@go build -o bin/chaos ./test/chaos/run
	@bin/chaos -for '$(or $(FOR),30m)' -setup group-peers $(GROUPS_CHAOS)
	@bin/chaos -for '$(or $(FOR),30m)' -setup group-file $(GROUPS_CHAOS)

.PHONY: recording
recording: ## record docs/lab.webm, and take docs/lab-*.webp, of the laboratory's page; needs Chromium and ffmpeg, and minutes
	ELECT_LONG=1 go test -count=1 -timeout 1h ./test/page -run '^Test(Recording|Pictures)$$' -rewrite

VERSION  ?= 0.0.0
PAGES    ?= bin/pages
PACKAGES ?= bin/package

.PHONY: package
package: pages ## bin/package: a .deb and an .rpm for this machine's architecture (VERSION=)
	@rm -rf '$(PACKAGES)'
	@$(MAKE) --no-print-directory packages ELECT='$(PAGES)/elect' ARCH="$$(go env GOARCH)"

# What packages and archives have beside the program, which writes it.
.PHONY: pages
pages: ## bin/pages: the manual pages, and the completion of bash, zsh and fish
	@rm -rf '$(PAGES)' && mkdir -p '$(PAGES)'
	CGO_ENABLED=0 go build -trimpath -o '$(PAGES)/elect' ./cmd/elect
	'$(PAGES)/elect' man '$(PAGES)/man'
	'$(PAGES)/elect' completion bash >'$(PAGES)/elect.bash'
	'$(PAGES)/elect' completion zsh >'$(PAGES)/_elect'
	'$(PAGES)/elect' completion fish >'$(PAGES)/elect.fish'

# .goreleaser.yaml calls it for each architecture, after make pages.
.PHONY: packages
packages: ## a .deb and an .rpm of a program that is there (ELECT=path ARCH= VERSION= PACKAGES=directory)
	@mkdir -p '$(PACKAGES)'
	for kind in deb rpm; do ELECT='$(ELECT)' PAGES='$(PAGES)' ARCH='$(ARCH)' VERSION='$(VERSION)' \
		go run $(NFPM) package -f deploy/package/nfpm.yaml -p $$kind -t '$(PACKAGES)'; done

.PHONY: release-check
release-check: ## goreleaser validates .goreleaser.yaml; builds for many minutes the first time
	go run $(GORELEASER) check

.PHONY: release-try
release-try: ## bin/dist: the archives, packages and checksums of a release, of which nothing is published
	go run $(GORELEASER) release --snapshot --clean

# Built once, and found by tests that are skipped without them. Consul is under the Business Source License: it is built
# for tests, and nothing of it is in a product. SERVERS are folders of test/fencing/server/testdata.
SERVERS ?= consul clientgo apiserver nats versitygw
SERVERS_AT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/elect-test/

.PHONY: servers
servers: ## build, for minutes, the servers of tests that are skipped without them: Consul, kube-apiserver, client-go, NATS, S3 (SERVERS=)
	for server in $(SERVERS); do \
		(cd "test/fencing/server/testdata/$$server" && GOWORK=off GOFLAGS= CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags='-s -w' -o '$(SERVERS_AT)' tool) || exit 1; \
	done

.PHONY: manifests
manifests: ## validate deploy/kubernetes against the schema of Kubernetes 1.30; builds for minutes the first time
	go run $(KUBECTL_VALIDATE) --version 1.30 deploy/kubernetes/lease.yaml deploy/kubernetes/peers.yaml deploy/kubernetes/role.yaml deploy/kubernetes/sidecar.yaml

.PHONY: ci
ci: ## all that CI does
	.ci/run
