package filestore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lineSuffix is what the name of the file that processes stand in line at has after that of
// the limits. There is nothing in it.
const lineSuffix = "-lock"

// line is where the processes that write one file stand in line: a lock of the kernel's on a
// file beside it. Who waits for it sleeps, is woken when it is free, and loses it with its
// process. SQLite's own lock, which is taken as well, would have to be asked for again and
// again. It keeps the file sound; the line only keeps the processes from meeting there.
//
// A nil line is no line: everybody goes ahead.
type line struct {
	file  *os.File
	isIn  bool
	began time.Time // of the burst
	left  time.Time
}

// The bytes of the file that are locked.
const (
	turnByte    = 0 // by who writes
	presentByte = 1 // by all who wait, together
)

// openLine opens the line at the file of limits. It returns nil if it may not make one:
// the limits are read-only then, or somebody else's.
func openLine(path string) (*line, error) {
	if unix.Access(path, unix.W_OK) != nil {
		return nil, nil
	}
	file, err := os.OpenFile(path+lineSuffix, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = makeLine(path)
	}
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
			return nil, nil
		}
		return nil, err
	}
	return &line{file: file}, nil
}

// makeLine makes the file with the mode of the limits, and their owner, as SQLite does
// with its other files: whoever may write the limits stands in line.
func makeLine(path string) (*os.File, error) {
	var limits unix.Stat_t
	if err := unix.Stat(path, &limits); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	mode := fs.FileMode(limits.Mode) & 0o666
	file, err := os.OpenFile(path+lineSuffix, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm() != mode {
		err = file.Chmod(mode) // whatever the umask says
	}
	if err == nil && os.Geteuid() == 0 {
		err = file.Chown(int(limits.Uid), int(limits.Gid))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// wait returns when it is this process's turn.
func (l *line) wait() {
	if l == nil {
		return
	}
	if l.lock(unix.F_OFD_SETLK, unix.F_WRLCK, turnByte) == nil {
		if time.Since(l.left) > pause { // others could have come in
			l.began = time.Now()
		}
	} else {
		_ = l.lock(unix.F_OFD_SETLK, unix.F_RDLCK, presentByte)
		_ = l.lock(unix.F_OFD_SETLKW, unix.F_WRLCK, turnByte)
		_ = l.lock(unix.F_OFD_SETLK, unix.F_UNLCK, presentByte)
		l.began = time.Now()
	}
	l.isIn = true
}

// isOver reports whether the burst has had its time, and others wait.
func (l *line) isOver(burst time.Duration) bool {
	if l == nil || time.Since(l.began) < burst {
		return false
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: presentByte, Len: 1}
	if l.control(unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK {
		return true
	}
	l.began = time.Now()
	return false
}

// leave lets the next one in.
func (l *line) leave() {
	if l == nil || !l.isIn {
		return
	}
	_ = l.lock(unix.F_OFD_SETLK, unix.F_UNLCK, turnByte)
	l.isIn, l.left = false, time.Now()
}

func (l *line) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close() // once the kernel has answered who waits
}

func (l *line) lock(command int, kind int16, at int64) error {
	return l.control(command, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1})
}

func (l *line) control(command int, lock *unix.Flock_t) error {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		for {
			if err = unix.FcntlFlock(fd, command, lock); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, controlErr)
}
