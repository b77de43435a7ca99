package shell

import (
	"embed"
	"slices"
	"strings"
)

//go:embed scripts
var scripts embed.FS

// Completed returns the names of the shells that [Script] knows.
func Completed() []string { return []string{"bash", "zsh", "fish"} }

// Script returns the script that has a shell ask limitctl at every Tab, by the request
// [Tab]; ok is false for a shell without a script.
func Script(shell string, descriptions bool) (script string, ok bool) {
	if !slices.Contains(Completed(), shell) {
		return "", false
	}
	text, err := scripts.ReadFile("scripts/limitctl." + shell)
	if script = string(text); !descriptions {
		script = strings.Replace(script, Tab+" "+shell, Tab+" "+noDescriptions+" "+shell, 1)
	}
	return script, err == nil
}
