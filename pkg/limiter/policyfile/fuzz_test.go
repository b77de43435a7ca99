package policyfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
)

// Parse never panics. A file that it accepts has no problem, and its errors can be printed.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(testdata + "*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && len(data) < 2000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return // the time of the YAML parser is not tested here
		}
		file, err := policyfile.Parse("fuzz.yaml", data)
		if err != nil {
			var mistakes *policyfile.Mistakes
			if !errors.As(err, &mistakes) || len(mistakes.List) == 0 || strings.ContainsAny(err.Error(), "\x1b\x00\t") {
				t.Errorf("%T: %q", err, err)
			}
			return
		}
		for _, p := range file.Policies {
			if problems := p.Problems(); len(problems) > 0 {
				t.Errorf("a policy with problems is accepted: %v", problems)
			}
		}
	})
}
