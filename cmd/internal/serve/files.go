package serve

import (
	"cmp"
	"runtime"
	"slices"
)

// ownFiles is the number of files that the server opens besides the connections of its clients: to the store, for
// which a client keeps ten connections per processor, listeners, the log, the configuration.
func ownFiles() int { return 64 + 10*runtime.GOMAXPROCS(0) }

// files is the number of files that n connections of the door keep open.
func (d *Door) files(n int) int { return n * max(1, d.Files) }

// fit bounds the connections of the doors so that the files of the process are enough for all of them, and logs it:
// without a free file, no connection can be accepted, not even an operator's. A door that needs less than its share
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
	doors := make([]*Door, len(o.Doors))
	for i := range o.Doors {
		doors[i] = &o.Doors[i]
	}
	slices.SortStableFunc(doors, func(a, b *Door) int { return cmp.Compare(a.files(a.MaxConnections), b.files(b.MaxConnections)) })
	for i, door := range doors {
		share := room / (len(doors) - i)
		if door.files(door.MaxConnections) > share {
			wanted := door.MaxConnections
			door.MaxConnections = max(1, share/door.files(1))
			o.Log.Warn("the process may open too few files for so many connections, so there are fewer; "+
				"raise the limit (ulimit -n, LimitNOFILE)", "door", door.Name, "open_files", limit,
				"wanted", wanted, "connections", door.MaxConnections)
		}
		room = max(0, room-door.files(door.MaxConnections))
	}
}
