package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// MasterName is the name of the master for the Sentinels of [LaunchSentinel].
const MasterName = "mymaster"

// Sentinel is a running master and its replica, watched by three Sentinels.
type Sentinel struct {
	Servers   []*Process // the master among them changes; see Master
	Sentinels []*Process
}

// LaunchSentinel runs a master, a replica and three Sentinels until Stop; args are additional configuration of the
// first two. It returns when the Sentinels know the servers and each other, and can fail over.
func LaunchSentinel(args ...string) (*Sentinel, error) {
	s := &Sentinel{}
	own := []string{"--repl-diskless-sync-delay", "0"}
	if slices.Contains(args, "--tls-cert-file") {
		own = append(own, "--tls-replication", "yes")
	}
	var err error
	if s.Servers, err = launchAll(2, func() (*Process, error) {
		return Launch(slices.Concat(own, args)...)
	}); err == nil {
		s.Sentinels, err = launchAll(3, func() (*Process, error) {
			return Launch(slices.Concat(tlsOnly(args), []string{"--sentinel"})...)
		})
	}
	if err == nil {
		err = s.watch()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// tlsOnly returns the part of args about TLS, which Sentinels need, too.
func tlsOnly(args []string) []string {
	var kept []string
	for i := 0; i+1 < len(args); i += 2 {
		if strings.HasPrefix(args[i], "--tls-") {
			kept = append(kept, args[i], args[i+1])
		}
	}
	if len(kept) > 0 {
		kept = append(kept, "--tls-replication", "yes")
	}
	return kept
}

// watch makes one server a replica of the other, and makes the Sentinels watch them.
func (s *Sentinel) watch() error {
	ctx := context.Background()
	host, port, _ := net.SplitHostPort(s.Servers[0].Addr)
	if err := s.Servers[1].do(ctx, "REPLICAOF", host, port).Err(); err != nil {
		return err
	}
	replica := s.Servers[1].admin()
	defer replica.Close()
	if err := until("a replica following its master", func(ctx context.Context) error {
		return following(ctx, replica)
	}); err != nil {
		return err
	}
	for _, sentinel := range s.Sentinels {
		for _, words := range [][]any{
			{"SENTINEL", "MONITOR", MasterName, host, port, 2},
			{"SENTINEL", "SET", MasterName, "down-after-milliseconds", 1000, "failover-timeout", 3000},
			// By default they check the servers and each other every few seconds, and pause for 30 s when a busy
			// machine delays them, which is too long for a test. A Sentinel that did not hear of a failover for
			// four publish periods turns the new master back into a replica, and the leading Sentinel checks only
			// once a second.
			{"SENTINEL", "DEBUG", "info-period", 100, "publish-period", 500, "ask-period", 100, "tilt-period", 1000},
		} {
			if err := sentinel.do(ctx, words...).Err(); err != nil {
				return fmt.Errorf("%v: %w", words, err)
			}
		}
	}
	return until("Sentinels knowing what they watch", func(ctx context.Context) error {
		for _, sentinel := range s.Sentinels {
			if err := ready(ctx, sentinel); err != nil {
				return err
			}
		}
		return nil
	})
}

// ready returns what a Sentinel lacks to be able to fail over.
func ready(ctx context.Context, sentinel *Process) error {
	master, err := sentinel.do(ctx, "SENTINEL", "MASTER", MasterName).Result()
	if err != nil {
		return err
	}
	replicas, err := sentinel.do(ctx, "SENTINEL", "REPLICAS", MasterName).Slice()
	if err != nil {
		return err
	}
	if m := fields(master); m["flags"] != "master" || m["num-slaves"] != "1" || m["num-other-sentinels"] != "2" {
		return fmt.Errorf("it knows of the master %v", m)
	}
	if r := fields(replicas[0]); r["flags"] != "slave" || r["master-link-status"] != "ok" {
		return fmt.Errorf("it knows of the replica %v", r)
	}
	return sentinel.do(ctx, "SENTINEL", "CKQUORUM", MasterName).Err()
}

// fields parses a map in a Sentinel's answer, for either version of the protocol.
func fields(reply any) map[string]string {
	m := make(map[string]string)
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			m[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			m[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return m
}

// Addrs returns the addresses of the Sentinels.
func (s *Sentinel) Addrs() []string {
	var addrs []string
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr)
	}
	return addrs
}

// Master returns the master according to the first Sentinel that runs, and nil if none does.
func (s *Sentinel) Master() *Process {
	for _, sentinel := range s.Sentinels {
		if master := s.masterBy(context.Background(), sentinel); master != nil {
			return master
		}
	}
	return nil
}

func (s *Sentinel) masterBy(ctx context.Context, sentinel *Process) *Process {
	words, err := sentinel.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).StringSlice()
	if err != nil || len(words) != 2 {
		return nil
	}
	for _, server := range s.Servers {
		if server.Addr == net.JoinHostPort(words[0], words[1]) {
			return server
		}
	}
	return nil
}

// KillMaster kills the master, once the replica has all its data, and returns it. Then the Sentinels promote the
// replica, for which [Sentinel.WaitFailover] waits.
func (s *Sentinel) KillMaster() (old *Process, err error) {
	if old = s.Master(); old == nil {
		return nil, errors.New("no Sentinel names a master")
	}
	err = untilSame(s.Servers)
	if err == nil {
		old.Kill()
	}
	return old, err
}

// untilSame waits until a master and its replica have the same data.
func untilSame(servers []*Process) error {
	return until("a replica catching up", func(ctx context.Context) error {
		var offsets []string
		for _, server := range servers {
			info, err := server.do(ctx, "INFO", "replication").Text()
			if err != nil {
				return err
			}
			_, rest, _ := strings.Cut(info, "\r\nmaster_repl_offset:") // a replica has its own, too
			offset, _, _ := strings.Cut(rest, "\r\n")
			offsets = append(offsets, offset)
		}
		if offsets[0] != offsets[1] {
			return fmt.Errorf("the servers are at %s", offsets)
		}
		return nil
	})
}

// WaitFailover waits until every running Sentinel names another master than old, which accepts writes.
func (s *Sentinel) WaitFailover(old *Process) error {
	return until("Sentinels failing over", func(ctx context.Context) error {
		for _, sentinel := range s.Sentinels {
			if !sentinel.running() {
				continue
			}
			master := s.masterBy(ctx, sentinel)
			if master == nil || master == old {
				return errors.New("a Sentinel does not name a new master")
			}
			client := master.admin()
			defer client.Close()
			if info, err := client.Info(ctx, "replication").Result(); err != nil ||
				!strings.Contains(info, "role:master") {
				return fmt.Errorf("the new master says %q, %v", info, err)
			}
		}
		return nil
	})
}

// Stop ends all processes and removes their directories.
func (s *Sentinel) Stop() { stopAll(slices.Concat(s.Sentinels, s.Servers)) }
