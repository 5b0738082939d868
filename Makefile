# amberfs: see README.md. Every target works from a fresh clone.
GO    ?= go
BIN   := bin/amberfs

# What amberfs version prints; "" is what the build knows of its source.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE    ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
LDFLAGS  = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
PREFIX  ?= /usr/local
# The same for the program and for its tests: what they share is compiled once.
# Remotes are read by many connections (remote/backend), so HTTP/2 is left out: half a megabyte.
export GOFLAGS += -buildvcs=false -trimpath -tags=nethttpomithttp2

.PHONY: build cross npm image install uninstall session licences run stop test fresh test-race test-long test-remote \
	test-clients test-cluster test-kubernetes test-kernels test-packages test-plugin test-release test-sandboxes snapshot lint bench bench-disk bench-curves bench-containers crash histories powercut soak clean

# Static, so that it runs in any container.
build:
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/amberfs

# For every system that is released, in bin/linux-ARCH.
ARCHES ?= amd64 arm64 riscv64
cross:
	@set -e; for arch in $(ARCHES); do echo "linux/$$arch"; mkdir -p bin/linux-$$arch; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -ldflags "$(LDFLAGS)" \
		-o bin/linux-$$arch/amberfs ./cmd/amberfs; done

# Packages for npm, in bin/npm.
npm:
	@$(MAKE) --no-print-directory cross ARCHES="amd64 arm64"
	packaging/npm/pack "$(VERSION)" bin/npm bin/linux-amd64/amberfs bin/linux-arm64/amberfs

# A container image with the binary and nothing else. ENGINE=podman
ENGINE ?= docker
IMAGE  ?= amberfs
image:
	@$(MAKE) --no-print-directory cross ARCHES="$$($(GO) env GOARCH)"
	$(ENGINE) build --build-arg TARGETARCH="$$($(GO) env GOARCH)" -t $(IMAGE) .

# DESTDIR= PREFIX=/usr/local, and UNITDIR, SBINDIR where they differ.
# sudo need not find Go: then the binary that make build left is installed.
install:
	@if command -v $(GO) >/dev/null; then $(MAKE) --no-print-directory build; else test -x $(BIN); fi
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install

uninstall:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install -u

# Records the terminal session that the README shows, and what other pages say
# that commands print.
session:
	AMBERFS_UPDATE_DOCS=1 AMBERFS_TEST_PACKAGES=1 $(GO) test -count=1 -run 'TestSessions|TestPicture' ./tests/docs

# The licences of what is linked in.
licences:
	@packaging/licences

# Mounts a workspace at ./ws, filled with this repository's own tree.
run:
	@scripts/run

stop:
	@scripts/stop

# Samples of everything, in five minutes.
test:
	@scripts/test

# The README's commands on a bare system, as root and as an ordinary user.
fresh:
	@scripts/fresh

# The same under the race detector, for changes of what runs at once.
test-race:
	@scripts/test race

# Everything, whole, under the race detector: for the night.
test-long:
	@scripts/test long

# golangci-lint is built once, from its module, into bin/. scripts/lines counts lines of
# code, and fails nothing.
lint: bin/golangci-lint
	bin/golangci-lint run ./...
	@scripts/lines

bin/golangci-lint:
	@mkdir -p bin
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: bin/bench
bin/bench: build
	$(GO) build -C tests/bench -o $(CURDIR)/bin/bench .

# One table: the mount, a plain directory beside it, and the peers at hand.
# ROWS=capture,untar runs those rows alone.
bench: bin/bench
	@scripts/setup bench
	bin/bench -bin $(BIN) -rows "$(ROWS)" -o "$(SAMPLES)"

# A day that is bound by the disk, and containers: in half an hour or less each. What
# grows: in an hour.
bench-disk bench-curves bench-containers: bin/bench
	@scripts/setup bench
	bin/bench -bin $(BIN) -rows $(patsubst bench-%,%,$@) -o "$(SAMPLES)"
	@[ $@ != bench-curves ] || { $(GO) test -run - -bench 'Forks|Listing|Requests' -timeout 1h ./snapshot && \
		OBJECTS=16000000 $(GO) test -run - -bench 'Lookup|Rebuild' -timeout 1h ./cas; }

# Remotes against servers that others wrote: S3 (versitygw) and a registry. Images
# against podman and skopeo.
test-remote:
	@scripts/setup remote
	AMBERFS_TEST_REMOTE=1 $(GO) test -count=1 -timeout 40m ./remote/... ./tests/remote/...
	AMBERFS_TEST_REMOTE=1 $(GO) test -count=1 -timeout 40m -run TestPodmanAndSkopeo ./tests/images

# Other kernels, another processor: KERNELS="6.1 6.12 arm64", SMOKE=1 for no more
# than what a first user does.
test-kernels:
	@scripts/test-kernels $(if $(SMOKE),smoke)

# Packages, units, images and examples as their users meet them: installed, run
# and removed in a copy of this machine's root directory.
test-packages:
	@scripts/setup packages
	AMBERFS_TEST_PACKAGES=1 $(GO) test -count=1 -timeout 20m -v ./tests/packages
	AMBERFS_TEST_PACKAGES=1 $(GO) test -count=1 -timeout 10m -run TestPicture ./tests/docs

# The plugin, judged by the agents' own programs.
test-plugin:
	@scripts/test-plugin

# A fork inside of sandboxes: engines, gVisor, those of agents, a virtual machine.
test-sandboxes:
	@scripts/test-sandboxes

# The examples of the clients' adapters, with the packages that these are for.
test-clients:
	@scripts/setup test
	@scripts/setup clients
	AMBERFS_TEST_CLIENTS=1 $(GO) test -count=1 -timeout 10m -run TestExamples ./tests/clients

# Volumes of Kubernetes and snapshots of containerd, judged by what their authors test drivers with.
test-cluster: build
	@scripts/setup cluster
	@set -e; for module in amberfs-csi containerd-amberfs; do \
		(cd cmd/$$module && $(GO) vet ./... && AMBERFS_TEST_REMOTE=1 AMBERFS_TEST_BIN=$(CURDIR)/$(BIN) $(GO) test -count=1 -timeout 20m ./...); done

# A cluster of two nodes on this machine, of which nothing is left.
test-kubernetes: build
	@scripts/setup kubernetes
	@scripts/test-kubernetes

# A release without publishing it, in dist/: goreleaser is built once into bin/.
snapshot:
	@scripts/setup release
	bin/goreleaser check
	bin/goreleaser release --snapshot --clean

# Two of them, with nothing compiled in common, are the same; and test-packages
# with what goreleaser made.
test-release:
	@scripts/setup release
	scripts/test-release

# ROUNDS rounds of {random work, kill -9, remount, compare with a model}, and as many kills under programs.
ROUNDS ?= 1000
crash:
	@scripts/setup test
	AMBERFS_TEST_LONG=1 ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 0 -v ./tests/crash ./tests/survive

# Histories of two sides of a repository, each at git, which are brought together: 5,000.
histories:
	AMBERFS_TEST_LONG=1 $(GO) test -count=1 -timeout 0 -v -run TestGitHistories ./gitbridge

# ROUNDS power cuts at any write, with what the disk may have kept of them.
powercut:
	@scripts/setup test
	AMBERFS_TEST_LONG=1 ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 0 -v ./tests/powercut

# Real programs at work for LENGTH, with captures every second.
LENGTH ?= 1h
soak:
	@scripts/setup soak
	LENGTH=$(LENGTH) $(GO) test -count=1 -timeout 0 -v ./tests/soak

clean:
	rm -rf bin dist
