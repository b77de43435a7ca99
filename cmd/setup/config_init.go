package setup

import (
	_ "embed"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
)

// firstConfig is the file that config init writes. Its first line names schemaFile for editors.
//
//go:embed limitctl.init.yaml
var firstConfig string

const schemaFile = "limitctl.schema.json"

func newConfigInitCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first configuration file",
		Long: `Init writes FILE, limitctl.yaml by default, with two policies to begin with, and
beside it limitctl.schema.json. The first line of FILE names the schema, so that
an editor with a YAML language server checks and completes the file. It replaces
no file.`,
		Example: "  limitctl config init limits/limitctl.yaml",
		Args:    cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigInit(global, append(args, "limitctl.yaml")[0])
		},
	}
}

func runConfigInit(g *cli.Globals, path string) error {
	if path == "" {
		return cli.Usagef("FILE is empty; name it, or leave it out for limitctl.yaml")
	}
	answer := &initAnswer{SchemaVersion: output.SchemaVersion, Files: []string{
		path, filepath.Join(filepath.Dir(path), schemaFile)}}
	is, err := isThere(g, path)
	if err == nil && is {
		return cli.Usagef("%s is there already, and stays as it is; check it with `%s`, or name another FILE",
			shell.Command(path),
			shell.Command("limitctl", "config", "validate", path))
	}
	keep := false
	if err == nil {
		keep, err = isThere(g, answer.Files[1])
	}
	if err == nil && keep { // an editor needs some schema, and may need this one
		answer.Files = answer.Files[:1]
	} else if err == nil {
		err = files.WriteShared(answer.Files[1], configfile.SchemaText())
	}
	if err == nil {
		err = files.WriteShared(path, []byte(firstConfig))
	}
	if err != nil {
		return cli.Usagef("%s cannot be written: %s", shell.Command(path), cli.Cause(err))
	}
	return g.Print(answer)
}

// isThere reports whether there is anything at a path.
func isThere(g *cli.Globals, path string) (bool, error) {
	file, err := files.Open(path)
	switch {
	case err == nil:
		return true, file.Close()
	case errors.Is(err, fs.ErrNotExist):
		return false, files.CanWrite(path)
	}
	return false, err // a folder, or a file that others own
}

// initAnswer is the answer of config init.
type initAnswer struct {
	SchemaVersion int      `json:"schema_version"`
	Files         []string `json:"files"`
}

// Print implements output.Answer.
func (a *initAnswer) Print(p *output.Printer) {
	p.Line("%s %s", p.Paint(output.Calm, "✓ wrote"), strings.Join(a.Files, " and "))
	p.Line("  edit it, then: %s", shell.Command("limitctl", "config", "validate", a.Files[0]))
}
