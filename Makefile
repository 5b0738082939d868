# amberfs: see README.md. Every target works from a fresh clone.
GO    ?= go
BIN   := bin/amberfs

.PHONY: build run stop test lint bench crash soak clean

build:
	@mkdir -p bin
	$(GO) build -buildvcs=false -trimpath -o $(BIN) ./cmd/amberfs

# Mounts a workspace at ./ws, filled with this repository's own tree.
run:
	@scripts/run

stop:
	@scripts/stop

test:
	@scripts/test

# golangci-lint is built once, from its module, into bin/.
lint: bin/golangci-lint
	bin/golangci-lint run ./...

bin/golangci-lint:
	@mkdir -p bin
	GOBIN=$(CURDIR)/bin $(GO) install -buildvcs=false github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# One table: the mount, a plain directory beside it, and the peers at hand.
# ROWS=capture,untar runs those rows alone.
bench: build
	@scripts/setup bench
	$(GO) run ./tests/bench -bin $(BIN) -rows "$(ROWS)"

# ROUNDS rounds of {random work, kill -9, remount, compare with a model}.
ROUNDS ?= 1000
crash:
	@scripts/setup test
	ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 0 -v ./tests/crash

# Real programs at work for LENGTH, with captures every second.
LENGTH ?= 1h
soak:
	@scripts/setup soak
	LENGTH=$(LENGTH) $(GO) test -count=1 -timeout 0 -v ./tests/soak

clean:
	rm -rf bin
