package doctor

import (
	"fmt"

	"github.com/limitctl/limitctl/internal/output"
)

// LocalFiles are limitctl's files on this machine, apart from its configuration.
type LocalFiles struct {
	// Directory is the directory of these files; empty if the environment does not determine it.
	Directory string
	// Backups is the number of backups, and BackupBytes their size together.
	Backups     int
	BackupBytes int64
	// AuditBytes is the size of the audit log, and ShadowBytes that of the fallback store; 0 if there is none.
	AuditBytes, ShadowBytes int64
	// Problem says why the files cannot be read; nil if they can.
	Problem error
}

// largeBackups is the size of backups from which on somebody should tidy up.
const largeBackups = 1 << 30

// JudgeLocal judges the files on this machine, which undo resets and record who did what.
func JudgeLocal(l LocalFiles) Finding {
	f := Finding{Check: "local", Status: OK, Data: map[string]any{"directory": l.Directory, "backups": l.Backups,
		"backup_bytes": l.BackupBytes, "audit_bytes": l.AuditBytes, "shadow_bytes": l.ShadowBytes}}
	switch {
	case l.Directory == "":
		f.Status, f.Summary = Warn, "no place for the audit log and backups: neither XDG_STATE_HOME nor HOME is set"
		f.Advice = "set one of them; without it a reset needs --backup FILE"
		return f
	case l.Problem != nil:
		f.Status, f.Summary = Warn, "the files in "+output.Printable(l.Directory)+" cannot be looked at: "+oneLine(l.Problem)
		f.Advice = "without that directory a reset cannot be undone: look at its rights"
		return f
	}
	f.Summary = fmt.Sprintf("%s: %s of %s", output.Printable(l.Directory), output.Plural(l.Backups, "backup"), output.Bytes(l.BackupBytes))
	if l.AuditBytes > 0 {
		f.Summary += ", an audit log of " + output.Bytes(l.AuditBytes)
	}
	if l.ShadowBytes > 0 {
		f.Summary += ", a fallback store of " + output.Bytes(l.ShadowBytes)
	}
	if l.BackupBytes >= largeBackups {
		f.Status = Warn
		f.Advice = "delete old backups with limitctl undo --prune 90d"
	}
	return f
}
