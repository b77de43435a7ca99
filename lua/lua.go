// Package lua holds the scripts that decide limits inside Redis, each with the
// shape of its Go twin in pkg/limiter, and puts them together.
package lua

import (
	"embed"
	"strings"
)

//go:embed *.lua
var files embed.FS

// algorithmFiles lists the scripts by the algorithm's number in requests and
// records, where each algorithm needs the files before it that it names.
var algorithmFiles = [...][]string{
	1: {"token_bucket.lua"},
	2: {"token_bucket.lua", "leaky_bucket.lua"},
	3: {"fixed_window.lua"},
	4: {"sliding_log.lua"},
	5: {"sliding_counter.lua"},
}

// Decide returns the script that decides requests of that algorithm, leaving
// out the others' code. It fails with an ALGORITHM error on a record that
// another algorithm wrote; [DecideAll] knows them all.
func Decide(algorithm uint8) string {
	return join(algorithmFiles[algorithm])
}

// DecideAll returns the script that decides requests of any algorithms.
func DecideAll() string {
	return join([]string{"token_bucket.lua", "leaky_bucket.lua", "fixed_window.lua", "sliding_log.lua", "sliding_counter.lua"})
}

// Delete returns the script that deletes keys holding records of ours.
func Delete() string { return read("delete.lua") }

func join(algorithms []string) string {
	var script strings.Builder
	script.WriteString(read("arithmetic.lua"))
	script.WriteString(read("record.lua"))
	for _, name := range algorithms {
		script.WriteString(read(name))
	}
	script.WriteString(read("decide.lua"))
	return script.String()
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded above
	}
	return string(text)
}
