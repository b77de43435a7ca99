package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/lazyregexp"
	"github.com/limitctl/limitctl/internal/spelling"
)

// habits are the words that other programs have for what limitctl calls otherwise, by the
// command that they are looked for under, and what to run instead.
func habits() map[string]map[string]string {
	return map[string]map[string]string{
		"limitctl": {
			"get": "limitctl inspect PATTERN", "list": "limitctl inspect PATTERN", "ls": "limitctl inspect PATTERN",
			"show": "limitctl inspect PATTERN", "keys": "limitctl inspect PATTERN", "scan": "limitctl inspect PATTERN",
			"describe": "limitctl inspect PATTERN", "watch": "limitctl inspect PATTERN --watch",
			"stats": "limitctl inspect '*' --summary", "delete": "limitctl reset PATTERN", "del": "limitctl reset PATTERN",
			"rm": "limitctl reset PATTERN", "remove": "limitctl reset PATTERN", "clear": "limitctl reset PATTERN",
			"flush": "limitctl reset PATTERN", "unlimit": "limitctl exempt PATTERN --for 1h --reason TEXT",
			"set": "limitctl override set PATTERN --limit LIMIT --for 1h --reason TEXT",
			"ban": "limitctl block PATTERN --for 1h --reason TEXT", "deny": "limitctl block PATTERN --for 1h --reason TEXT",
			"unban": "limitctl unblock PATTERN", "allow": "limitctl exempt PATTERN --for 1h --reason TEXT",
			"take": "limitctl consume KEY --limit LIMIT", "acquire": "limitctl consume KEY --limit LIMIT",
			"peek": "limitctl check KEY --limit LIMIT", "test": "limitctl check KEY --limit LIMIT",
			"status": "limitctl doctor", "ping": "limitctl doctor", "health": "limitctl doctor",
			"log": "limitctl audit", "history": "limitctl audit", "rollback": "limitctl undo", "revert": "limitctl undo",
			"bench": "limitctl loadtest --limit LIMIT", "benchmark": "limitctl loadtest --limit LIMIT",
			"policies": "limitctl config show", "use": "limitctl context use NAME", "contexts": "limitctl context list",
			"overrides": "limitctl override list", "backup": "limitctl backups list",
		},
		"limitctl context": {
			"get": "limitctl context show", "current": "limitctl context show", "current-context": "limitctl context show",
			"set": "limitctl context use NAME", "switch": "limitctl context use NAME", "select": "limitctl context use NAME",
		},
		"limitctl override": {
			"get": "limitctl override list", "show": "limitctl override list", "add": "limitctl override set PATTERN",
			"create": "limitctl override set PATTERN", "delete": "limitctl override revoke ID", "rm": "limitctl override revoke ID",
			"remove": "limitctl override revoke ID", "unset": "limitctl override revoke ID",
		},
		"limitctl backups": {
			"get": "limitctl backups show BACKUP", "delete": "limitctl backups prune", "rm": "limitctl backups prune",
			"restore": "limitctl restore BACKUP",
		},
		"limitctl config": {
			"get": "limitctl config show", "view": "limitctl config show", "list": "limitctl config show", "ls": "limitctl config show",
			"check": "limitctl config validate", "lint": "limitctl config validate", "test": "limitctl config validate",
		},
	}
}

// flagHabits are flags that other programs have, and what to give instead.
func flagHabits() map[string]string {
	return map[string]string{
		"json": "-o json", "yaml": "-o yaml", "csv": "-o csv", "format": "-o FORMAT", "out": "-o FORMAT",
		"url": "--store URL", "host": "--store redis://HOST:PORT", "force": "--yes", "f": "--yes", "follow": "--watch",
		"name": "--limit-name NAME", "reason-text": "--reason TEXT", "noop": "--dry-run", "simulate": "--dry-run",
	}
}

// unknownFlag finds the flag in the error of one that a command does not have.
var unknownFlag = lazyregexp.New(`^unknown flag: --([^=]+)|^unknown shorthand flag: '(.)'`)

// wrongValue finds the value and the flag in the error of a value that the flag does not take.
var wrongValue = lazyregexp.New(`^invalid argument "(.*)" for "(?:-., )?--([^"]+)" flag`)

// flagHint is what might have been meant by a flag that cmd does not have, after a semicolon, or
// "".
func flagHint(cmd *cobra.Command, complaint string) string {
	found := unknownFlag().FindStringSubmatch(complaint)
	if found == nil {
		return ""
	}
	name := found[1] + found[2]
	habit, has := flagHabits()[name]
	if cmd.Flags().Lookup("rate") != nil || cmd.Flags().Lookup("denied-status") != nil { // it makes load, or asks an endpoint
		if forLoad, hasLoad := loadHabits()[name]; hasLoad {
			habit, has = forLoad, true
		}
	}
	if has {
		flag, _, _ := strings.Cut(strings.TrimLeft(habit, "-"), " ")
		if cmd.Flags().Lookup(flag) != nil || len(flag) == 1 && cmd.Flags().ShorthandLookup(flag) != nil {
			return fmt.Sprintf("; did you mean %s?", habit)
		}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spelling.Nearest(name, names, 2); near != "" && len(name) > 1 {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return ""
}

// addUsualAliases lets commands be called as other programs call theirs.
func addUsualAliases(cmd *cobra.Command) {
	if cmd.Name() == "list" {
		cmd.Aliases = append(cmd.Aliases, "ls")
	}
	for _, sub := range cmd.Commands() {
		addUsualAliases(sub)
	}
}
