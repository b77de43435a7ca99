package cli

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"
)

// StandardOutput is the file name that stands for standard output.
const StandardOutput = "-"

// mostSummaries is the largest size in bytes of the summary file of a build.
const mostSummaries = 4 << 20

// WriteSummary writes a summary to a file. It appends to the file that GitHub shows for a step, since other commands of
// the step write there, too.
func WriteSummary(g *Globals, path string, text []byte) error {
	switch {
	case path == StandardOutput:
		_, err := g.Printer().Data.Write(text)
		return err
	case path == g.Env.Getenv("GITHUB_STEP_SUMMARY"):
		before, err := g.Env.ReadFile(path, mostSummaries)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		text = append(before, text...)
	}
	return g.Env.WriteShared(path, text)
}

// CheckPlaces reports a flag whose file cannot be written, so that the output is not lost after the work. reads is the
// file that the command reads.
func CheckPlaces(cmd *cobra.Command, g *Globals, reads string, flags ...string) error {
	taken := map[string]string{} // the flag that names a file
	for _, flag := range flags {
		path := cmd.Flags().Lookup(flag).Value.String()
		switch {
		case !cmd.Flags().Changed(flag), path == StandardOutput && flag != "save" && flag != "html":
			continue
		case path == "":
			return Usagef("--%s is empty; name a file, or leave it out", flag)
		case reads != "" && filepath.Clean(path) == filepath.Clean(reads):
			return Usagef("--%s %s would replace the log that is read; name another file", flag, path)
		case taken[filepath.Clean(path)] != "":
			return Usagef("--%s and --%s both name %s; give each a file of its own", taken[filepath.Clean(path)], flag,
				filepath.Clean(path))
		}
		taken[filepath.Clean(path)] = flag
		if flag == "samples" { // it may be a pipe
			continue
		}
		if err := g.Env.CanWrite(path); err != nil {
			return Usagef("--%s %s: the report cannot be written there: %s", flag, path, Cause(err))
		}
	}
	return nil
}
