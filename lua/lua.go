// Package lua holds the scripts that decide limits inside Redis, each algorithm
// in the shape of its Go twin in pkg/limiter, and puts them together.
package lua

import (
	"embed"
	"strings"
)

//go:embed *.lua
var files embed.FS

// oneFiles lists the script of each algorithm that decide_one.lua can decide, by
// the algorithm's number in requests and records. A leaky bucket's state is a
// token bucket's.
var oneFiles = map[uint8]string{
	1: "token_bucket.lua",
	2: "token_bucket.lua",
	3: "fixed_window.lua",
	5: "sliding_counter.lua",
}

// DecideOne returns the script that decides one take or peek of that algorithm in
// the usual case, and fails with COMPLETE in any other. It is "" for an algorithm
// whose state is too large for it.
func DecideOne(algorithm uint8) string {
	name, ok := oneFiles[algorithm]
	if !ok {
		return ""
	}
	return join("arithmetic.lua", "record.lua", name, "decide_one.lua")
}

// Decide returns the complete script, for any requests.
func Decide() string {
	return join("arithmetic.lua", "record.lua", "token_bucket.lua", "fixed_window.lua", "sliding_counter.lua", "sliding_log.lua", "decide.lua")
}

// Delete returns the script that deletes keys holding records of ours.
func Delete() string { return join("holds.lua", "delete.lua") }

// Export returns the script that reads whole records.
func Export() string { return join("holds.lua", "export.lua") }

// Import returns the script that writes exported records back.
func Import() string { return join("holds.lua", "import.lua") }

// All returns every script there is.
func All() []string {
	return []string{DecideOne(1), DecideOne(3), DecideOne(5), Decide(), Delete(), Export(), Import()}
}

func join(names ...string) string {
	var script strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded above
		}
		script.Write(text)
	}
	return script.String()
}
