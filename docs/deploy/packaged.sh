#!/bin/sh
# Writes to bin/packaged what packages have besides the program and its documentation: man pages, completions, and the
# licences of what is linked in. .goreleaser.yaml calls it.
set -eu
cd "$(dirname "$0")/../.."
rm -rf bin/packaged
mkdir -p bin/packaged/man bin/packaged/completions
go run -tags manpages ./internal/manpages bin/packaged/man
gzip -9n bin/packaged/man/*
for shell in bash zsh fish powershell; do
	go run . completion $shell >bin/packaged/completions/limitctl.$shell
done
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' . | sort -u | grep . |
	while read -r path version folder; do
		printf '== %s %s\n\n' "$path" "$version"
		cat "$folder"/LICEN[CS]E* "$folder"/NOTICE* 2>/dev/null || true
		echo
	done >bin/packaged/NOTICES
