# The commands of the house. `make demo` and `make test` are all a newcomer needs.

VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo test fuzz lint bench redis chromium clean

build: ## build bin/limitctl
	go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/limitctl .

demo: build ## show the main job on the embedded file store; needs no server
	@sh docs/demo.sh bin/limitctl

test: redis chromium ## every test; installs redis-server and chromium first where they are missing
	go test ./...
	go test -race -run 'Conformance/Law11|Concurrent' ./...

fuzz: ## every fuzz target, 30 seconds each
	@for target in ParseLimit Key Pattern Record; do \
		go test ./pkg/limiter -run '^$$' -fuzz "^Fuzz$$target\$$" -fuzztime 30s -fuzzminimizetime 20x || exit 1; \
	done
	@for target in Apache JSONLines CSV Instant Read; do \
		go test ./pkg/loadgen/trace -run '^$$' -fuzz "^Fuzz$$target\$$" -fuzztime 30s -fuzzminimizetime 20x || exit 1; \
	done
	go test ./pkg/limiter/redisstore -run '^$$' -fuzz '^FuzzAnswers$$' -fuzztime 30s -fuzzminimizetime 20x
	go test ./cmd/internal/connect -run '^$$' -fuzz FuzzURLs -fuzztime 30s -fuzzminimizetime 20x
	go test ./pkg/limiter/policy -run '^$$' -fuzz '^FuzzParseKey$$' -fuzztime 30s -fuzzminimizetime 20x
	go test ./cmd/internal/config -run '^$$' -fuzz '^FuzzParse$$' -fuzztime 30s -fuzzminimizetime 20x
	go test ./cmd/internal/backup -run '^$$' -fuzz '^FuzzBackup$$' -fuzztime 30s -fuzzminimizetime 20x
	go test ./cmd/internal/report -run '^$$' -fuzz '^FuzzParseThreshold$$' -fuzztime 30s -fuzzminimizetime 20x
	go test ./cmd/internal/report -run '^$$' -fuzz '^FuzzRead$$' -fuzztime 30s -fuzzminimizetime 20x

lint: ## gofmt, vet and staticcheck, warnings being errors
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	cd docs/benchmarks && go vet ./... && go run $(STATICCHECK) ./...

bench: redis ## beside our peers; see docs/benchmarks
	cd docs/benchmarks && go run .

redis:
	@command -v redis-server >/dev/null || sh docs/install-redis.sh

chromium:
	@command -v chromium >/dev/null || sh docs/install-chromium.sh

clean:
	rm -rf bin
