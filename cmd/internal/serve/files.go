package serve

import (
	"cmp"
	"runtime"
	"slices"
)

// ownFiles is the number of files that the server opens besides the connections of its clients: to the store, for
// which a client keeps ten connections per processor, listeners, the log, the configuration.
func ownFiles() int { return 64 + 10*runtime.GOMAXPROCS(0) }

// fit bounds the connections of the listeners so that the files of the process are enough for all of them, and logs it:
// without a free file, no connection can be accepted, not even an operator's. A listener that needs less than its share
// leaves the rest to the others.
func (o *Options) fit() {
	most := o.openFiles
	if most == nil {
		most = openFiles
	}
	limit, known := most()
	if !known {
		return
	}
	room := limit - min(ownFiles(), limit/4)
	listeners := make([]*Listener, len(o.Listeners))
	for i := range o.Listeners {
		listeners[i] = &o.Listeners[i]
	}
	slices.SortStableFunc(listeners, func(a, b *Listener) int { return cmp.Compare(a.MaxConnections, b.MaxConnections) })
	for i, listener := range listeners {
		share := room / (len(listeners) - i)
		if wanted := listener.MaxConnections; wanted > share {
			listener.MaxConnections = max(1, share)
			o.Log.Warn("the process may open too few files for so many connections, so there are fewer; "+
				"raise the limit (ulimit -n, LimitNOFILE)", "door", listener.Name, "open_files", limit,
				"wanted", wanted, "connections", listener.MaxConnections)
		}
		room = max(0, room-listener.MaxConnections)
	}
}
