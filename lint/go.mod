module github.com/limitctl/limitctl/lint

go 1.26.0

require (
	github.com/gordonklaus/ineffassign v0.2.0
	github.com/nishanths/exhaustive v0.17.1
	github.com/polyfloyd/go-errorlint v1.8.0
	golang.org/x/tools v0.52.0
)

require golang.org/x/sync v0.24.0 // indirect
