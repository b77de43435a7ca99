package shell

import (
	"embed"
	"slices"
	"strings"
)

//go:embed scripts
var scripts embed.FS

// Completed returns the names of the shells for [Script].
func Completed() []string { return []string{"bash", "zsh", "fish"} }

// Script returns the completion script of a shell, which calls limitctl with [Tab] at every Tab key; ok is false
// for an unknown shell.
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
