package stepin

import (
	"fmt"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
)

// undoAnswer is the answer of undo.
type undoAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	InBackup      int    `json:"records"`
	Restored      int64  `json:"restored"`
	Already       int64  `json:"already_there"` // equal to the backup before
	Lapsed        int64  `json:"lapsed"`        // their usage has expired since
	InUse         int64  `json:"in_use"`        // used since, and left
	Unreached     int64  `json:"unreached"`     // the interrupted reset had not reached them, and they are left
	Failed        int64  `json:"failed"`        // cannot be restored, and left
	DryRun        bool   `json:"dry_run"`
	Backup        string `json:"backup"` // its path
	// FirstStoreKeys and StoreKeys are the first keys that a dry run found, and how many there are.
	FirstStoreKeys []string `json:"first_store_keys,omitempty"`
	StoreKeys      int      `json:"store_keys,omitempty"`
	// FirstStoreKeysBase64 are the bytes of the first store keys if any is not UTF-8.
	FirstStoreKeysBase64 []string `json:"first_store_keys_base64,omitempty"`
}

// Records implements output.Answer.
func (a *undoAnswer) Records() [][]string {
	return [][]string{{"records", "restored", "already_there", "lapsed", "in_use", "unreached", "failed", "dry_run", "backup"},
		{fmt.Sprint(a.InBackup), cli.Number(a.Restored), cli.Number(a.Already), cli.Number(a.Lapsed), cli.Number(a.InUse),
			cli.Number(a.Unreached), cli.Number(a.Failed), fmt.Sprint(a.DryRun), a.Backup}}
}

// Print implements output.Answer.
func (a *undoAnswer) Print(p *output.Printer) {
	if a.DryRun {
		p.Line("would restore up to %s (dry run)", output.Plural(a.InBackup, "key"))
		for _, storeKey := range a.FirstStoreKeys {
			p.Line("  %s", output.Printable(output.Shorten(storeKey, cli.LongestKey)))
		}
		if more := a.StoreKeys - len(a.FirstStoreKeys); more > 0 {
			p.Line("… and %s more", output.Plural(more, "key"))
		}
		return
	}
	text := "restored " + output.Plural(int(a.Restored), "key")
	for _, other := range []struct {
		n    int64
		what string
	}{{a.Already, "already there"}, {a.Lapsed, "expired meanwhile"}, {a.InUse, "used since and left"},
		{a.Unreached, "not reached by the reset and left"}, {a.Failed, "not fit to be restored and left"}} {
		if other.n > 0 {
			text += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	fmt.Fprintln(p.Out, text)
}
