package cmd

import (
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/metrics"
)

// observed are the engine's options, with metrics told of what it decides.
func (o *serveOptions) observed(options engine.Options, counted *metrics.Metrics) engine.Options {
	options.Observer, options.StoreObserver = counted.Observer(), counted.StoreObserver()
	options.OnDecision, options.OnReplace = counted.Decided, counted.Configure
	return options
}
