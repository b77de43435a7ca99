package cmd

import (
	"github.com/limitctl/limitctl/cmd/internal/errorkind"
)

// The exit codes, which scripts rely on.
const (
	exitYes         = errorkind.ExitYes
	exitNo          = errorkind.ExitNo
	exitUsage       = errorkind.ExitUsage
	exitUnreachable = errorkind.ExitUnreachable
	exitRefused     = errorkind.ExitRefused
	exitPartly      = errorkind.ExitPartly
	exitInterrupted = errorkind.ExitInterrupted
)
