# What contributors do, one line each. make without a target lists them; .ci/run runs what must pass.

.DEFAULT_GOAL := help
.PHONY: help build run test quick race fuzz lint fmt generate compat rules bench diff kill model simulate plants published firstweek migration faults fulldisk hostile attack vuln failover dist dist-here reproduce ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the static binary ./zkd
	CGO_ENABLED=0 go build -trimpath -o zkd ./cmd/zkd

run: ## serve on port 2181 with the data in ./zkd-data
	CGO_ENABLED=0 go run ./cmd/zkd serve

test: ## test everything, real clients included, and name what was left out
	go test -timeout 20m ./...
	go run ./compat-tests/leftout

quick: ## test without real clients, in random order
	go test -short -shuffle=on ./...

race: ## test the concurrent packages under the race detector
	bash .ci/run race

fuzz: ## run every fuzz target for FUZZTIME (default 6000x: that many inputs)
	bash .ci/run fuzz

lint: ## check format, go vet and the linters
	bash .ci/run install format vet lint

fmt: ## format the sources
	gofmt -w $$(find . -name '*.go')

generate: ## write records.go, docs/configuration.md and the sample files anew
	go generate ./...

compat: ## run the real clients alone; ZKD_COMPAT_TARGET=zookeeper runs them against the real server
	go test -v -timeout 20m ./compat-tests/...

rules: ## check the rules of this repository alone
	go test ./compat-tests/rules

bench: ## run the benchmarks of the packages
	go test -run '^$$' -bench . -benchmem ./jute/... ./storage/... ./quorum/... ./server/...

diff: ## compare 10,000 random scripts of 200 operations with the real server (about 15 minutes)
	ZKD_DIFF_SCRIPTS=10000 go test -timeout 90m -run TestRandom ./compat-tests/differential

kill: ## 200 rounds of kill -9 under write load
	ZKD_KILL_ROUNDS=200 go test -timeout 30m -run TestKill ./cmd/zkd

model: ## a million random operations on storage and on its oracle
	ZKD_MODEL_OPS=1000000 go test -timeout 60m -run Oracle ./storage/state

simulate: ## whole servers, with clients, under 2,000 seeds of faults on all cores; what fails is kept in ZKD_SIM_KEEP
	ZKD_SIM_SEEDS=$${ZKD_SIM_SEEDS:-2000} go test -v -timeout 24h -run 'TestSeeds' ./compat-tests/simulation

plants: ## plant each known bug in the servers of simulated ensembles, and see it found; ZKD_SIM_PLANTS names some, ZKD_SIM_SEEDS counts how many of so many find each
	ZKD_SIM_PLANTS=$${ZKD_SIM_PLANTS:-all} go test -v -timeout 90m -run TestPlants ./compat-tests/simulation

published: ## ZooKeeper's and Curator's own tests against processes of zkd; ZKD_PUBLISHED names some classes; writes docs/published.md
	ZKD_PUBLISHED=$${ZKD_PUBLISHED:-all} go test -v -timeout 180m -run 'TestJars|TestPublished' ./compat-tests/published -update

firstweek: ## the first week of an operator, with an upgrade from the version before
	ZKD_FIRSTWEEK=1 go test -v -timeout 30m -run TestFirstWeek ./compat-tests/firstweek

migration: ## import a million znodes that the real server has written
	ZKD_MIGRATION_ZNODES=1000000 go test -v -timeout 30m -run TestMany ./compat-tests/migration

faults: ## an hour of faults on real processes of an ensemble, with a check of what clients saw
	ZKD_FAULTS=$${ZKD_FAULTS:-60m} go test -v -timeout 90m -run TestFaults ./compat-tests/faults

fulldisk: ## fill the disks of three servers in every way, again and again; ZKD_FULLDISK_MIB is their size (256)
	ZKD_FULLDISK_MIB=$${ZKD_FULLDISK_MIB:-256} go test -v -timeout 90m ./compat-tests/fulldisk

hostile: ## ten million damaged requests and frames, and 100,000 streams between servers, under the race detector; ZKD_HOSTILE_FRAMES and ZKD_HOSTILE_STREAMS ask for other numbers
	ZKD_HOSTILE_FRAMES=$${ZKD_HOSTILE_FRAMES:-10000000} go test -race -v -timeout 10h -run TestHostile \
		./server ./quorum/transport
	ZKD_HOSTILE_STREAMS=$${ZKD_HOSTILE_STREAMS:-100000} go test -race -v -timeout 3h -run TestHostileStreams \
		./server/instance ./quorum/snapshot

attack: ## hostile clients beside a healthy one, on zkd and on the real server, as a table; ZKD_ATTACK_ONLY names some
	ZKD_ATTACK_SCALE=$${ZKD_ATTACK_SCALE:-1} go test -v -timeout 60m -run TestAttacks ./compat-tests/attack

vuln: ## look for known vulnerabilities, where their database can be reached
	bash .ci/run vuln

failover: ## the gap in writes when the leader ends, and three servers under load, beside the real server
	CGO_ENABLED=0 go run ./cmd/zkd bench compare --servers 3 --loads failover,write:64x1,write:32x100,read:64x1,read:32x100,beside

dist: ## build what is released into dist/: binaries, archives, .deb, .rpm, SBOM, checksums; VERSION names it
	go run ./conf/package dist

dist-here: ## the same for this platform alone
	go run ./conf/package dist -targets "$$(go env GOOS)/$$(go env GOARCH)"

reproduce: ## build what is released twice in different folders, and compare
	go run ./conf/package reproduce

ci: ## run what must pass, as a fresh clone would
	bash .ci/run
