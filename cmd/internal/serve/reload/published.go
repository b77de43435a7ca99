package reload

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Published keeps the configuration that was published to a store in force.
type Published struct {
	follower *published.Follower
	base     *config.Config
	current  *config.Config // nil before there is one
	reloader *Reloader      // nil before the server decides
	wrong    error          // why the published version is not in force; nil if it is
}

// Follow puts the published configuration in force, for Config; without one, the version that was kept, and else
// fallback, if it is not nil. base has what is not published: contexts and the prefix.
// An error says why there is no configuration to begin with.
func Follow(ctx context.Context, settings published.Settings, base, fallback *config.Config) (*Published, error) {
	p := &Published{base: base}
	settings.Use, settings.OnError = p.use, p.looked
	p.follower = published.NewFollower(settings)
	err := p.follower.Start(ctx)
	switch {
	case p.current != nil:
		return p, nil
	case fallback == nil:
		p.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	c := *fallback
	c.Contexts, c.Prefix = base.Contexts, base.Prefix
	p.current = &c
	return p, nil
}

// Config returns the configuration to begin with.
func (p *Published) Config() *config.Config { return p.current }

// Begin makes o.Apply get each further version. Refresh is to be called once a [published.LookEvery].
func (p *Published) Begin(o Options) *Reloader {
	p.reloader = New(o)
	p.setVersion()
	if p.wrong != nil {
		p.keep()
	}
	return p.reloader
}

// Refresh looks whether another version is in force.
func (p *Published) Refresh(ctx context.Context) {
	p.follower.Look(ctx)
	p.setVersion()
}

// Close says that this process no longer follows.
func (p *Published) Close(ctx context.Context) { p.follower.Close(ctx) }

// use puts a version in force.
func (p *Published) use(v *published.Version) error {
	c, err := p.base.WithPublished(fmt.Sprintf("published version %d", v.Number), v.Text)
	if err != nil {
		return oneLine(err)
	}
	p.current = c
	if p.reloader != nil {
		p.reloader.replace(c, false)
	}
	return nil
}

// oneLine is the first of several mistakes, for reports and the log.
func oneLine(err error) error {
	mistakes := new(config.Mistakes)
	if !errors.As(err, &mistakes) || len(mistakes.List) == 0 {
		return err
	}
	m := mistakes.List[0]
	more := ""
	if n := len(mistakes.List); n > 1 {
		more = fmt.Sprintf(" (and %d more)", n-1)
	}
	return store.Invalidf("%s:%d:%d: %s%s", m.Path, m.Line, m.Column, m.Text, more)
}

// looked gets why the published version is not in force, and nil when it is again.
func (p *Published) looked(err error) {
	p.wrong = err
	switch {
	case p.reloader == nil:
	case err != nil:
		p.keep()
	case p.reloader.State().StaleSince != nil: // no other version is in force, which would have ended that
		p.reloader.replace(p.current, false)
	}
}

// keep keeps the configuration in force.
func (p *Published) keep() {
	what := "the published configuration cannot be used"
	if store.IsAway(p.wrong) {
		what = "the store with the published configuration cannot be reached"
	}
	p.reloader.keep(what, p.wrong)
}

// setVersion tells operators which version is in force.
func (p *Published) setVersion() {
	state := p.follower.State()
	p.reloader.mu.Lock()
	defer p.reloader.mu.Unlock()
	p.reloader.state.Refused = state.Refused
	if state.InForce != nil {
		p.reloader.state.Version = state.InForce.Number
	}
}
