package cmd

import (
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// withTerminals returns env with an [output.Terminal] before each of its streams, so that nothing
// that a stranger wrote does anything to a terminal, and what writes out the last of it.
func withTerminals(env *Env, styles bool) (inside *Env, flush func()) {
	out, err := output.NewTerminal(env.Out, styles), output.NewTerminal(env.Err, styles)
	copied := *env
	copied.rawOut, copied.rawErr = env.Out, env.Err
	copied.Out, copied.Err = out, err
	return &copied, func() {
		out.Flush()
		err.Flush()
	}
}
