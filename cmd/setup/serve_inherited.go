package setup

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/serve"
)

// inheritedScheme begins the address of a socket that systemd opens, such as systemd:http.
const inheritedScheme = "systemd:"

// firstInherited is the descriptor of the first one (sd_listen_fds(3)).
const firstInherited = 3

// inherited returns the address of the socket of that name that systemd has opened for this process. flag is for errors.
func (f *serveFrame) inherited(flag, name string) (*serve.Address, error) {
	env := f.flags.Env
	text := inheritedScheme + name
	if f.flags.checkOnly && name != "" { // systemd passes sockets only to what it starts to serve
		address := serve.Inherited(text, nil)
		return &address, nil
	}
	count, err := strconv.Atoi(env.Getenv("LISTEN_FDS"))
	if err != nil || count < 1 || env.Getenv("LISTEN_PID") != strconv.Itoa(env.Process) {
		return nil, cli.Usagef("--%s %s: systemd has passed no socket to this process; start it by a socket unit, "+
			"such as docs/deploy/limitctl.socket", flag, text)
	}
	names := strings.Split(env.Getenv("LISTEN_FDNAMES"), ":")
	names = names[:min(len(names), count)]
	at := slices.Index(names, name)
	switch {
	case at < 0:
		return nil, cli.Usagef("--%s %s: systemd has passed no socket of that name, only %s; "+
			"its name is FileDescriptorName of the socket unit", flag, text, strings.Join(names, ", "))
	case slices.Contains(names[at+1:], name):
		return nil, cli.Usagef("--%s %s: systemd has passed several sockets of that name; "+
			"give each a socket unit with its own FileDescriptorName", flag, text)
	case slices.Contains(f.taken, at):
		return nil, cli.Usagef("--%s %s: another listener has that socket; give each its own", flag, text)
	}
	f.taken = append(f.taken, at)
	address := serve.Inherited(text, func() (net.Listener, error) { return env.Inherit(firstInherited + at) })
	return &address, nil
}
