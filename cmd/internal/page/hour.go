package page

import (
	"context"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// hourFor is how long the denials of an hour are shown before they are read again, for all who search.
	hourFor = 10 * time.Second
	// againAfter is after how long they are read again if they could not be.
	againAfter = 5 * time.Second
	// minutes is how many minutes are told apart.
	minutes = int(admin.DenialMinutes / time.Minute)
)

// hour remembers the denials of the last hour, so that many searches read them once.
type hour struct {
	mu    sync.Mutex
	again time.Time // when they are to be read again
	read  hourOfDenials
}

// hourOfDenials are the denials of an hour, by the keys of the table.
type hourOfDenials struct {
	rows map[store.Key]*admin.Denied // nil if they are not known
	all  admin.Denials
	err  error
}

// of returns how a key was denied; nil if that is not known.
func (h *hourOfDenials) of(key store.Key) *deniedDocument {
	if h.rows == nil {
		return nil
	}
	row := h.rows[tableKey(key)]
	if row == nil {
		return &deniedDocument{PerMinute: make([]int64, minutes)}
	}
	trend := h.all.Trend(row)
	d := &deniedDocument{Count: row.Count, Blocked: row.Blocked, PerMinute: trend[max(0, len(trend)-minutes):]}
	if row.Since != 0 {
		since := row.Since.Time()
		d.Since = &since
	}
	return d
}

// deniedInAnHour reads the denials of the last hour, if that was not done lately.
func (p *Page) deniedInAnHour(ctx context.Context) hourOfDenials {
	if p.denials == nil {
		return hourOfDenials{}
	}
	p.hour.mu.Lock()
	defer p.hour.mu.Unlock()
	now := p.options.Dash.Now()
	if now.Before(p.hour.again) {
		return p.hour.read
	}
	// Whoever asked may leave, and the answer is for all.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(p.options.Dash.Timeout, time.Second))
	defer cancel()
	var read hourOfDenials
	if read.all, read.err = p.denials(ctx, admin.DenialMinutes); read.err == nil {
		read.rows = make(map[store.Key]*admin.Denied, len(read.all.Rows))
		for i := range read.all.Rows {
			read.rows[read.all.Rows[i].Key] = &read.all.Rows[i]
		}
	}
	p.hour.read, p.hour.again = read, now.Add(hourFor)
	if read.err != nil {
		p.hour.again = now.Add(againAfter)
	}
	return read
}
