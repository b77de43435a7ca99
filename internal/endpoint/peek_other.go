//go:build !unix

package endpoint

import "net"

// idleness cannot find out on this system whether a connection is still open.
func idleness(net.Conn) func() bool { return func() bool { return true } }
