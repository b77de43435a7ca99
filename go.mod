module github.com/limitctl/limitctl

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // latencies of a load test
	github.com/charmbracelet/bubbles v1.0.0 // text inputs, keys and help of the dashboard
	github.com/charmbracelet/bubbletea v1.3.10 // the dashboard
	github.com/charmbracelet/lipgloss v1.1.0 // colours of the dashboard
	github.com/charmbracelet/x/ansi v0.11.6 // cutting styled text
	github.com/clipperhouse/displaywidth v0.10.0 // width and cut of a text on a terminal
	github.com/dunglas/httpsfv v1.1.2 // structured header fields (RFC 9651)
	github.com/go-json-experiment/json v1.27.0 // strict JSON in /v1 and backups, as encoding/json/v2 of Go 1.27
	github.com/goccy/go-yaml v1.19.2 // configuration files
	github.com/itchyny/gojq v0.12.20 // --jq
	github.com/mattn/go-runewidth v0.0.31 // width of a character
	github.com/muesli/termenv v0.16.0 // colours of a terminal
	github.com/olekukonko/tablewriter v1.1.5 // tables
	github.com/prometheus/client_golang v1.19.1 // metrics of serve and of package prom
	github.com/redis/go-redis/v9 v9.22.0 // Redis; versions before panic or hang at some hostile answers
	github.com/rogpeppe/go-internal v1.14.1 // tests: scripts of commands
	github.com/spf13/cobra v1.8.1 // commands
	github.com/spf13/pflag v1.0.5 // flags
	github.com/valyala/fasthttp v1.74.0 // HTTP/1.1 requests of a load test; versions before take some broken answers for sound
	github.com/vbauerster/mpb/v8 v8.14.0 // progress bars
	golang.org/x/net v0.60.0 // HTTP/2 of Envoy's service; versions before lack security fixes
	golang.org/x/sys v0.48.0 // what systems differ in
	golang.org/x/term v0.46.0 // terminals
	google.golang.org/grpc v1.83.2 // Envoy's rate limit service
	google.golang.org/protobuf v1.36.11 // messages of Envoy's rate limit service
	modernc.org/sqlite v1.60.0 // the file store
	pgregory.net/rapid v1.2.0 // tests: random operations
)

require (
	github.com/VividCortex/ewma v1.2.0 // indirect
	github.com/acarl005/stripansi v0.0.0-20180116102854-5a71ef0e047d // indirect
	github.com/atotto/clipboard v0.1.4 // indirect
	github.com/aymanbagabas/go-osc52/v2 v2.0.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/charmbracelet/colorprofile v0.4.1 // indirect
	github.com/charmbracelet/x/cellbuf v0.0.15 // indirect
	github.com/charmbracelet/x/term v0.2.2 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/cpuguy83/go-md2man/v2 v2.0.4 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/erikgeiser/coninput v0.0.0-20211004153227-1c3628e74d0f // indirect
	github.com/fatih/color v1.18.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/itchyny/timefmt-go v0.1.9 // indirect
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/lucasb-eyer/go-colorful v1.3.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mattn/go-localereader v0.0.1 // indirect
	github.com/molecule-man/go-brrr v1.0.1 // indirect
	github.com/muesli/ansi v0.0.0-20230316100256-276c6243b2f6 // indirect
	github.com/muesli/cancelreader v0.2.2 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/olekukonko/cat v0.0.0-20250911104152-50322a0618f6 // indirect
	github.com/olekukonko/errors v1.2.0 // indirect
	github.com/olekukonko/ll v0.1.6 // indirect
	github.com/prometheus/client_model v0.5.0 // indirect
	github.com/prometheus/common v0.48.0 // indirect
	github.com/prometheus/procfs v0.12.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/vbauerster/cupwriter v0.0.4 // indirect
	github.com/xo/terminfo v0.0.0-20220910002029-abceb7e1c41e // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/tools v0.50.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)
