# The commands of the house. `make demo` and `make test` are all a newcomer needs.

VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null)
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1

# A first build is quicker without inlining and the debugger's tables, and with fewer collections of garbage.
LEAN        := -gcflags='all=-l -dwarf=false'
SELDOM      := GOGC=300
# The modules besides the one at the top.
MODULES     := $(patsubst %/go.mod,%,$(filter-out go.mod,$(shell git ls-files '*go.mod')))

# The parts of `make ci`. One after the other they take what two processors have to give.
PARTS       := setup lint systems demo test-module test-races test-races-of-all test-modules
.PHONY: build test ci release $(PARTS) mutants stress nightly nightly-races nightly-thrice fuzz bench soak docs site pictures vulnerabilities clean

build: ## build bin/limitctl
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/limitctl .

# What `make test` runs: the quick tier (see internal/tier), without a C compiler. A busy machine gives each
# process a share, so more packages and tests run at once than there are processors. SQLite is inlined, since it is
# five times slower otherwise.
QUICK_BUILD := $(LEAN) -gcflags=modernc.org/...=-dwarf=false -p 16
QUICK       := -short -vet=off -ldflags='-s -w' $(QUICK_BUILD) -parallel 12 -timeout 10m
QUICKLY     := CGO_ENABLED=0 $(SELDOM)
TRIED       := . ./cmd/... ./internal/... ./lua/... ./pkg/...
# The packages that have tests, each after how much it depends on. go test runs the tests of a package only when all
# packages before it in the list are built, and what needs SQLite is built last. SQLite itself is one package that takes
# a minute and cannot be split, so it is built beside everything else, as soon as there is what both need of Go.
SQLITE      := modernc.org/sqlite/lib
EARLIER     := {{if or .TestGoFiles .XTestGoFiles}}{{range .Deps}}{{if eq . "$(SQLITE)"}}1{{end}}{{end}}{{len .Deps}} {{.ImportPath}}{{end}}

test: ## the quick tests, in a few minutes; needs Go and redis-server only
	@sh docs/install-test-tools.sh --unasked redis-server
	@$(QUICKLY) go build $(QUICK_BUILD) $$(go list -deps -f '{{if .Standard}}{{.ImportPath}}{{end}}' $(SQLITE))
	@$(QUICKLY) go build $(QUICK_BUILD) $(SQLITE) & \
	$(QUICKLY) go test $(QUICK) $$(go list -f '$(EARLIER)' $(TRIED) | sort -n | cut -d' ' -f2)
	@echo; echo "The quick tests pass. Left out, and run by make ci: linters, builds for other systems, races, the examples, four in five scripts of commands, and the tests of"
	@find . -name '*_test.go' -exec grep -hoE 'tier\.Full\([a-z]+, "[^"]*"' {} + | sed 's/^[^"]*"\(.*\)"$$/\1/' | sort | uniq -c

ci: ## everything that has to pass before a change lands; installs first what the tests run
	@sh .ci/parts $(PARTS)

demo: build ## show the main job on the embedded file store; needs no server
	@sh docs/demo.sh bin/limitctl

RELEASE     := --snapshot
release: ## make archives, packages, inventories and checksums of this commit in bin/release by .goreleaser.yaml
	go run $(GORELEASER) release --clean $(RELEASE)

setup: ## install what the tests run and is missing: redis-server, chromium, shells, proxies, packages of Node.js
	@sh docs/install-test-tools.sh
	@sh docs/probed/install-node-modules.sh
	@sh docs/peers/install-node-modules.sh

test-module:
	go test -vet=off -timeout 40m ./...

# What runs under the race detector: the tests whose names have one of RACES, in the packages that have any, and all tests
# of RACING, in which everything goes on side by side, but the slowest.
RACES       := Conformance/Law11|Concurrent|HostileServersCost|EveryKindOfStore|StoreWork|Merged|HungMaster|SilentConn|PanickingHook|GivingBackGoesOn|Breaker|BesideThe|ALostStore|SeenAndUndone|DenialsOf|Overrid|Journal|SentWhenTheyAreDue|WakesAllWorkers|ByIntervals|PartsAreAsTheWhole
RACING      := ./internal/alarm ./internal/panics ./internal/respguard ./internal/redact \
	./cmd/internal/progress ./cmd/internal/connect ./cmd/internal/doctor ./cmd/internal/endpoint \
	./cmd/internal/serve ./cmd/internal/serve/api ./cmd/internal/serve/engine ./cmd/internal/serve/envoy \
	./cmd/internal/serve/events ./cmd/internal/serve/grpc ./cmd/internal/serve/metrics \
	./cmd/internal/serve/reload ./pkg/limiter/httplimit
HAVING       = $(filter-out $(RACING),$(patsubst %/,%,$(sort $(dir $(shell grep -rlE --include='*_test.go' --exclude-dir=docs --exclude-dir=prom \
	'^func (Test|Fuzz|Example)[A-Za-z0-9_]*($(subst /Law11,,$(RACES)))' .)))))
RACELESS    := Failover|ClientsCannotMakeSeries

test-races:
	go test -vet=off -timeout 20m -race -run '$(RACES)' $(HAVING)

test-races-of-all:
	go test -vet=off -timeout 20m -race -skip '$(RACELESS)' $(RACING)

test-modules:
	@for module in $(MODULES); do (cd $$module && echo "$$module:" && go test -vet=off -count=1 -timeout 10m ./...) || exit 1; done

fuzz: setup ## every fuzz target, 30 seconds each
	@for folder in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
		for target in $$(cd $$folder && go test . -list '^Fuzz' | grep '^Fuzz'); do \
			echo "$$folder $$target" && \
			(cd $$folder && go test . -run '^$$' -fuzz "^$$target\$$" -fuzztime 30s -fuzzminimizetime 20x) || exit 1; \
		done; \
	done

mutants: ## breaks the code in many ways, one at a time, and fails where no test fails
	@go run ./internal/mutants

lint: ## what .golangci.yml has, in every module
	@for module in . $(MODULES); do (cd $$module && echo "$$module:" && go run $(GOLANGCI) run ./...) || exit 1; done

# The systems that limitctl is built for, as GOOS/GOARCH and for arm /GOARM, and those of them that
# people develop on besides Linux.
SYSTEMS     := linux/amd64 linux/arm64 linux/arm/7 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 freebsd/amd64
DEVELOPED   := darwin/arm64 windows/amd64
# A line of a shell that does a thing for a system.
on = echo "go $(2) for $(1)"; GOOS=$(word 1,$(subst /, ,$(1))) GOARCH=$(word 2,$(subst /, ,$(1))) GOARM=$(word 3,$(subst /, ,$(1))) $(SELDOM) go $(2) $(LEAN) ./... || failed=1;

systems: ## build for every system, and vet the tests for those that people develop on
	@failed=0; $(foreach system,$(SYSTEMS),$(call on,$(system),build)) $(foreach system,$(DEVELOPED),$(call on,$(system),vet)) exit $$failed

vulnerabilities: ## known vulnerabilities in what we call; asks Go's vulnerability database
	go run $(GOVULNCHECK) ./...

bench: ## beside our peers; see docs/benchmarks
	@sh docs/install-test-tools.sh redis-server
	cd docs/benchmarks && go run .

stress: ## the quick tests as another user, in another zone, beside busy loops, and with the clock moved; takes long, and needs Linux
	@sh docs/install-test-tools.sh --unasked redis-server
	go build -o bin/stress ./internal/stress
	@$(QUICKLY) bin/stress $(QUICK) $(TRIED)

nightly: setup ## what a night has time for: every test under the race detector, every test three times, and stress
	@$(MAKE) --no-print-directory --keep-going nightly-races nightly-thrice stress

nightly-races:
	go test -vet=off -timeout 2h -race ./...

nightly-thrice:
	go test -vet=off -timeout 2h -count=3 -shuffle=on ./...

soak: setup ## ten minutes of load, rubbish and outages on a server, which has to end as it began, and every simulated server
	go test -count 1 -timeout 1h ./cmd/internal/lab ./pkg/loadgen/audit/interval -thorough
	go test ./cmd -timeout 20m -count 1 -v -run '^TestServeSoak$$' -soak 10m

docs: ## write anew what the docs show of commands: the references, the layouts, and outputs of the pages
	go test ./cmd -run '^TestThe(Reference|Documents)(Is|Are)UpToDate$$' -update
	go test ./pkg/limiter/layouts -run '^TestTheTableOfLayoutsIsUpToDate$$' -update
	-go test . -run '^TestThePagesShowWhatCommandsPrint$$' -update
	@echo "read the difference with git diff, and try again: go test ."

site: ## write the documentation as a site that works offline to bin/site; a dead link is an error
	@sh docs/install-test-tools.sh python3-myst-parser furo
	sphinx-build -q -W --keep-going -c docs . bin/site

pictures: build ## make the pictures of docs/images anew; best on a quiet machine
	@sh docs/install-test-tools.sh redis-server chromium termtosvg
	@sh docs/pictures.sh bin/limitctl

clean:
	rm -rf bin
