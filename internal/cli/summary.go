package cli

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// StandardOutput is the file name that stands for standard output.
const StandardOutput = "-"

// WriteSummary writes a summary to a file. It appends to the file that GitHub shows for a step, since other commands of
// the step write there, too.
func WriteSummary(g *Globals, path string, text []byte) error {
	switch {
	case path == StandardOutput:
		_, err := g.Printer().Data.Write(text)
		return err
	case path == g.Env.Getenv("GITHUB_STEP_SUMMARY"):
		file, err := g.Env.Stream(path, true)
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		return errors.Join(err, file.Close())
	}
	return g.Env.WriteShared(path, text)
}

// CheckPlaces reports a flag whose file cannot be written, so that the output is not lost after the work, and one whose file the
// command reads.
func CheckPlaces(cmd *cobra.Command, g *Globals) error {
	flags := cmd.Flags()
	reads := flags.Args()
	for _, flag := range []string{"config", "trace", "against"} {
		if f := flags.Lookup(flag); f == nil || !f.Changed {
			continue
		} else if list, is := f.Value.(pflag.SliceValue); is {
			reads = append(reads, list.GetSlice()...)
		} else {
			reads = append(reads, f.Value.String())
		}
	}
	read := map[string]bool{}
	for _, path := range reads {
		read[g.Env.Follow(path)] = true
	}
	taken := map[string]string{} // the flag that names a file
	for _, flag := range []string{"save", "html", "markdown", "junit", "samples"} {
		if !flags.Changed(flag) {
			continue
		}
		path := flags.Lookup(flag).Value.String()
		end := g.Env.Follow(path)
		switch {
		case path == StandardOutput && flag != "save" && flag != "html":
			continue
		case path == "":
			return Usagef("--%s is empty; name a file, or leave it out", flag)
		case read[end]:
			return Usagef("--%s %s would replace a file that is read; name another file", flag, path)
		case taken[end] != "":
			return Usagef("--%s and --%s both name %s; give each a file of its own", taken[end], flag, filepath.Clean(path))
		}
		taken[end] = flag
		if err := g.Env.CanWrite(path); err != nil {
			return Usagef("--%s %s: the report cannot be written there: %s", flag, path, Cause(err))
		}
	}
	return nil
}
