package policyfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// pair is a configuration whose two limits always have the same count.
func pair(count string) string {
	return "policies:\n  llm:\n    limits:\n      - {name: one, by: [team], limit: " + count + "/1h}\n" +
		"      - {name: two, by: [team], limit: " + count + "/1h}\n"
}

// publish puts a text in force in a store, as the command does.
func publish(t *testing.T, backend store.Store, text string) {
	t.Helper()
	table, _ := admin.TablesOf(backend)
	s, err := published.Read(t.Context(), table)
	tier.Must(t, err)
	done, err := table.Change(t.Context(), s.Next(&published.Version{By: "anna", Reason: "a test", Text: []byte(text)}))
	if err != nil || !done {
		t.Fatal(done, err)
	}
}

// follow makes a service that follows what is published to backend, and decides with decides.
func follow(t *testing.T, backend, decides store.Store, p policyfile.Published) *policyfile.Runtime {
	t.Helper()
	p.Timeout = time.Minute
	file, err := policyfile.Follow(t.Context(), backend, p)
	tier.Must(t, err)
	policies, err := policyfile.NewRuntime(file, decides)
	tier.Must(t, err)
	t.Cleanup(func() { policies.Close() })
	return policies
}

func openFile(t *testing.T) *filestore.Store {
	t.Helper()
	backend, err := filestore.New(filepath.Join(t.TempDir(), "limits.db"))
	tier.Must(t, err)
	t.Cleanup(func() { backend.Close() })
	return backend
}

// awayTable hides the published configurations of a store while it is away.
type awayTable struct {
	*filestore.Store
	admin.Tables
	away bool
}

type awaySide struct {
	admin.SideTable
	table *awayTable
}

func (s awaySide) Get(ctx context.Context, t admin.Table, names ...string) ([]admin.TableRecord, store.Instant, error) {
	if s.table.away {
		return nil, 0, store.ErrUnavailable
	}
	return s.SideTable.Get(ctx, t, names...)
}

// A service has each published version in force, all limits of it at one instant, and keeps the one before if it cannot
// use one. No decision is made by a mixture of versions.
func TestARuntimeFollowsWhatIsPublished(t *testing.T) {
	backend := openFile(t)
	publish(t, backend, pair("1000"))
	policies := follow(t, backend, memorystore.New(), policyfile.Published{Process: "checkout"})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	told := make(chan error, 100)
	running.Go(func() { policies.Watch(ctx, time.Millisecond, func(err error) { told <- err }) })
	for range 3 {
		running.Go(func() {
			for ctx.Err() == nil {
				call, err := policies.Call("llm", policy.Attributes{"team": "red"}, 1)
				if err != nil {
					t.Error(err)
					return
				}
				one, two := call.Requests[0].Limit().String(), call.Requests[1].Limit().String()
				if strings.TrimPrefix(one, "llm/one") != strings.TrimPrefix(two, "llm/two") {
					t.Errorf("a call is under %s and %s", one, two)
					return
				}
			}
		})
	}
	countOf := func() string { return policies.File().Policies[0].Limits[0].Stored().String() }
	next := func() error {
		select {
		case err := <-told:
			return err
		case <-time.After(time.Minute):
			t.Fatal("nothing is told of a version")
			return nil
		}
	}
	for _, count := range []string{"2000", "10", "3000"} {
		publish(t, backend, pair(count))
		if err := next(); err != nil || countOf() != "token-bucket:"+count+"/1h" {
			t.Errorf("of %s it tells %v, and has %s in force", count, err, countOf())
		}
	}
	publish(t, backend, strings.Replace(pair("4"), "limit:", "limt:", 1))
	if err := next(); err == nil || !strings.Contains(err.Error(), "did you mean limit?") ||
		countOf() != "token-bucket:3000/1h" {
		t.Errorf("of a broken version it tells %v, and has %s in force", err, countOf())
	}
	publish(t, backend, pair("5"))
	if err := next(); err != nil || countOf() != "token-bucket:5/1h" {
		t.Errorf("of a sound one it tells %v, and has %s in force", err, countOf())
	}
	processes, err := published.Processes(t.Context(), &backend.Tables)
	if err != nil || len(processes) != 1 || processes[0].Name != "checkout" || processes[0].Version != 6 {
		t.Errorf("the processes are %+v, %v", processes, err)
	}
	cancel()
	running.Wait()
}

// A start without the store decides by the version that was kept, and before anything was published by the fallback.
func TestAStartWithoutWhatIsPublished(t *testing.T) {
	backend := &awayTable{Store: openFile(t)}
	backend.SideTable = awaySide{backend.Store.SideTable, backend}
	cache := filepath.Join(t.TempDir(), "kept", "limits")
	fallback, err := policyfile.Parse("fallback.yaml", []byte("prefix: other\n"+pair("7")))
	tier.Must(t, err)
	start := func(p policyfile.Published) (string, error) {
		p.Cache = cache
		file, err := policyfile.Follow(t.Context(), backend, p)
		if err != nil {
			return "", err
		}
		if _, err := policyfile.NewRuntime(file, backend.Store); err != nil {
			t.Error(err)
		}
		return file.Policies[0].Limits[0].Stored().String(), nil
	}
	if _, err := start(policyfile.Published{}); !errors.Is(err, limiter.ErrInvalid) ||
		!strings.Contains(err.Error(), "was published") {
		t.Errorf("nothing was published: %v", err)
	}
	if limit, err := start(policyfile.Published{Fallback: fallback}); limit != "token-bucket:7/1h" {
		t.Errorf("with a fallback: %s, %v", limit, err)
	}
	publish(t, backend, pair("8"))
	if limit, err := start(policyfile.Published{Fallback: fallback}); limit != "token-bucket:8/1h" {
		t.Errorf("published: %s, %v", limit, err)
	}
	backend.away = true
	if limit, err := start(policyfile.Published{Fallback: fallback}); limit != "token-bucket:8/1h" {
		t.Errorf("kept: %s, %v", limit, err)
	}
	tier.Must(t, os.WriteFile(cache, []byte("spoilt"), 0o600))
	if _, err := start(policyfile.Published{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("spoilt and away: %v", err)
	}
	if _, err := policyfile.Follow(t.Context(), memorystore.New(), policyfile.Published{}); !errors.Is(
		err, limiter.ErrInvalid) {
		t.Errorf("a store in memory: %v", err)
	}
}

// Each Runtime of a followed file has each version in force, whichever of them looks first.
func TestRuntimesOfOneFileFollow(t *testing.T) {
	backend := openFile(t)
	publish(t, backend, pair("1"))
	file, err := policyfile.Follow(t.Context(), backend, policyfile.Published{Timeout: time.Minute})
	tier.Must(t, err)
	begin := func() *policyfile.Runtime {
		r, err := policyfile.NewRuntime(file, memorystore.New())
		tier.Must(t, err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	one, other := begin(), begin()
	for _, count := range []string{"2", "3"} {
		publish(t, backend, pair(count))
		for i, r := range []*policyfile.Runtime{one, other, begin()} { // the last one begins with an older version
			tier.Must(t, r.Reload())
			if limit := r.File().Policies[0].Limits[0].Stored().String(); limit != "token-bucket:"+count+"/1h" {
				t.Errorf("of %s, Runtime %d has %s in force", count, i, limit)
			}
		}
		one, other = other, one
	}
}

// What an earlier build wrote while it tried version 2 beside version 1.
const (
	triedHead = `{"schema":2,"version":1,"hash":"%s","oldest":1,"next":{"version":2,"hash":"%s","share":500,"by":"team",` +
		`"until":1767323045000000}}`
	triedLine = `{"version":2,"did":"canary","share":500,"attribute":"team","until":1767323045000000,"by":"anna","reason":"a trial",` +
		`"hash":"%s","bytes":300}`
)

// A head with a version under trial is read as its version in force, with one warning. What is published next, a file
// or an earlier version, is written without the trial, and takes the version that was tried away.
func TestAHeadWithATrialIsReadAsItsVersionInForce(t *testing.T) {
	backend := openFile(t)
	publish(t, backend, pair("1000"))
	s, err := published.Read(t.Context(), &backend.Tables)
	tier.Must(t, err)
	tried := published.Version{Number: 2, By: "anna", Reason: "a trial", Text: []byte(pair("5"))}
	hash := published.Hash(tried.Text)
	head := fmt.Sprintf(triedHead, s.Head.Hash, hash)
	done, err := backend.Change(t.Context(),
		&admin.Change{Table: admin.ConfigTable, Was: s.Was, Line: fmt.Sprintf(triedLine, hash),
			Set: []admin.TableRecord{{Name: "2", Value: tried.Record()}, {Value: head}}})
	if err != nil || !done {
		t.Fatal(done, err)
	}
	policies := follow(t, backend, backend, policyfile.Published{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []string
	policies.Watch(ctx, time.Millisecond, func(err error) {
		if err == nil { // the next version
			cancel()
			return
		}
		told = append(told, err.Error())
		if limit := policies.File().Policies[0].Limits[0].Stored().String(); limit != "token-bucket:1000/1h" {
			t.Errorf("%s is in force", limit)
		}
		publish(t, backend, pair("7"))
	})
	if len(told) != 1 || told[0] != "version 2, which an older limitctl tried beside version 1, is ignored" {
		t.Errorf("told %q", told)
	}
	if s, err = published.Read(t.Context(), &backend.Tables); err != nil || s.Head.Version != 3 || s.Head.Tried != 0 ||
		s.Before() != 1 ||
		s.Kept(2) || strings.Contains(s.Was, "next") || !strings.HasPrefix(s.Was, `{"schema":1,`) {
		t.Errorf("afterwards the head is %s, %v", s.Was, err)
	}
	if record, err := backend.Value(t.Context(), admin.ConfigTable, fmt.Sprint(2)); record != "" || err != nil {
		t.Errorf("the version that was tried is kept: %q, %v", record, err)
	}
}
