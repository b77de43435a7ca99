# The commands of the house. `make demo`, `make prove` and `make test` are all a newcomer needs.

VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null)
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
GREMLINS    := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1

# The modules besides the one at the top.
MODULES     := $(patsubst %/go.mod,%,$(filter-out go.mod,$(shell git ls-files '*go.mod')))

# Linters, tests, and builds for other systems share one set of flags, so that nothing is built twice. A first build is
# quicker without inlining and the debugger's tables, and with fewer collections of garbage. SQLite is inlined, since
# it is five times slower otherwise.
LEAN        := '-gcflags=all=-l -dwarf=false' -gcflags=modernc.org/...=-dwarf=false
house lint test tests systems modules mutants: export GOFLAGS := $(strip $(shell go env GOFLAGS) $(LEAN))
house lint test tests systems modules: export CGO_ENABLED := 0
lint test systems: export GOGC := 300

.PHONY: build test ci house lint setup demo prove tests systems races modules release nightly fuzz mutants stress soak \
	vulnerabilities bench docs site pictures clean

build: ## build bin/limitctl
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/limitctl .

# What `make test` runs: the quick tier (see internal/tier), without a C compiler. A busy machine gives each
# process a share, so more packages and tests run at once than there are processors.
QUICK       := -short -vet=off -ldflags='-s -w' -p 16 -parallel 12 -timeout 10m
TRIED       := . ./cmd/... ./internal/... ./lua/... ./pkg/...
# The packages that have tests, each after how much it depends on. go test runs the tests of a package only when all
# packages before it in the list are built, and what needs SQLite is built last. SQLite itself is one package that takes
# a minute and cannot be split, so it is built beside everything else, as soon as there is what both need of Go.
SQLITE      := modernc.org/sqlite/lib
EARLIER     := {{if or .TestGoFiles .XTestGoFiles}}{{range .Deps}}{{if eq . "$(SQLITE)"}}1{{end}}{{end}}{{len .Deps}} {{.ImportPath}}{{end}}

test: ## the quick tests, in a few minutes; needs Go and redis-server only
	@sh docs/install-test-tools.sh --unasked redis-server
	@go build -p 16 $$(go list -deps -f '{{if .Standard}}{{.ImportPath}}{{end}}' $(SQLITE))
	@go build $(SQLITE) & \
	go test $(QUICK) $$(go list -f '$(EARLIER)' $(TRIED) | sort -n | cut -d' ' -f2)
	@echo; echo "The quick tests pass. Left out, and run by make ci: linters, builds for other systems, races, the examples, and the tests of"
	@find . -name '*_test.go' -exec grep -hoE 'tier\.Full\([a-z]+, "[^"]*"' {} + | sed 's/^[^"]*"\(.*\)"$$/\1/' | sort | uniq -c

ci: ## everything that has to pass before a change lands, the cheap first; installs what the tests run
	@$(MAKE) --no-print-directory house
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory -j 2 --output-sync=target tests systems # tests wait, and builds compute
	@$(MAKE) --no-print-directory -j 2 --output-sync=target modules races

house: ## budgets and other rules of the sources
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	go test ./internal/house

BUILD_DEMO  := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -tags demo -o bin/demo ./docs/demo
demo: build ## the first ten minutes in one: a leak found, a figure, a night; on a Redis of its own, or on a file
	@$(BUILD_DEMO)
	@bin/demo bin/limitctl

prove: ## repeat what README claims: answers beside a model, and takes a second beside redis_rate; a minute or two
	@sh docs/install-test-tools.sh --unasked redis-server
	@cd docs/benchmarks && go run . -only prove

RELEASE     := --snapshot
release: ## make archives, packages, inventories and checksums of this commit in bin/release by .goreleaser.yaml
	go run $(GORELEASER) release --clean $(RELEASE)

setup: ## install what the tests run and is missing: redis-server, chromium, shells, proxies, packages of Node.js
	@sh docs/install-test-tools.sh
	@sh docs/probed/install-node-modules.sh
	@sh docs/peers/install-node-modules.sh

tests: # of the module at the top, all of them
	go test -vet=off -timeout 20m ./...

# What runs under the race detector: the quick tests of the packages in which much goes on side by side.
RACING       = $(filter-out %/filestore,$(shell go list ./pkg/...)) $(addprefix ./internal/,connect dash/... doctor endpoint \
	layers operation panics poll progress published redis serve/... spacesaving)

races:
	go test -vet=off -timeout 20m -race -short $(RACING)

modules:
	@for module in $(MODULES); do (cd $$module && echo "$$module:" && go test -vet=off -count=1 -timeout 10m ./...) || exit 1; done

fuzz: setup ## every fuzz target, 30 seconds each
	@for folder in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
		for target in $$(cd $$folder && go test . -list '^Fuzz' | grep '^Fuzz'); do \
			echo "$$folder $$target" && \
			(cd $$folder && go test . -run '^$$' -fuzz "^$$target\$$" -fuzztime 30s -fuzzminimizetime 20x) || exit 1; \
		done; \
	done

# Each of these is bred in its own package, and has to be killed by the tests of that.
MUTATED     := pkg/limiter/store internal/layers pkg/limiter/redisstore/internal/lanes pkg/loadgen/audit

mutants: ## break the code that counts in many small ways, and list the breaks that no test finds; takes hours
	@for package in $(MUTATED); do go run $(GREMLINS) unleash --timeout-coefficient 20 ./$$package || exit 1; done

lint: ## what .golangci.yml has, in every module
	@for module in . $(MODULES); do (cd $$module && echo "$$module:" && go run $(GOLANGCI) run ./...) || exit 1; done

# Systems of which the code has files or sizes of its own; `make release` builds for all. The tests are vetted where
# people develop besides Linux.
systems: ## build for other kinds of systems, and vet the tests for macOS and Windows
	GOOS=linux GOARCH=arm GOARM=7 go build ./...
	GOOS=freebsd GOARCH=amd64 go build ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=windows GOARCH=amd64 go vet ./...

vulnerabilities: ## known vulnerabilities in what we call; asks Go's vulnerability database
	go run $(GOVULNCHECK) ./...

bench: ## beside our peers; see docs/benchmarks
	@sh docs/install-test-tools.sh redis-server
	cd docs/benchmarks && go run .

stress: ## the quick tests as another user, in another zone, beside busy loops, and with the clock moved; needs Linux
	@sh docs/install-test-tools.sh --unasked redis-server libfaketime
	@sh .ci/stress $(QUICK) $(TRIED)

nightly: setup ## what a night has time for: every test under the race detector, every test three times, stress and mutants
	go test -vet=off -timeout 2h -race ./...
	go test -vet=off -timeout 2h -count=3 -shuffle=on ./...
	@$(MAKE) --no-print-directory stress mutants

soak: setup ## ten minutes of load, rubbish and outages on a server, which has to end as it began, and every simulated server
	go test -count 1 -timeout 1h ./cmd/test ./pkg/loadgen/audit/interval -thorough
	go test ./cmd -timeout 20m -count 1 -v -run '^TestServeSoak$$' -soak 10m

docs: ## write anew what the docs show of commands: the references, the layouts, and outputs of the pages
	go test ./cmd -run '^TestThe(Reference|Documents)(Is|Are)UpToDate$$' -update
	go test ./pkg/limiter/layouts -run '^TestTheTableOfLayoutsIsUpToDate$$' -update
	-go test . -run '^TestThePagesShowWhatCommandsPrint$$' -update
	@echo "read the difference with git diff, and try again: go test ."

site: ## write the documentation as a site that works offline to bin/site; a dead link is an error
	@sh docs/install-test-tools.sh python3-myst-parser furo
	sphinx-build -q -W --keep-going -c docs . bin/site
	@echo '<meta http-equiv="refresh" content="0; url=docs/index.html">' > bin/site/index.html

pictures: build ## make the pictures of docs/images anew; best on a quiet machine
	@sh docs/install-test-tools.sh redis-server chromium termtosvg
	@$(BUILD_DEMO) && bin/demo bin/limitctl docs/images/figure.svg
	@sh docs/pictures.sh bin/limitctl

clean:
	rm -rf bin
