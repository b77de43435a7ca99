package filestore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lineSuffix follows the name of the limits in the name of the file at which processes wait in line. That file is
// empty.
const lineSuffix = "-lock"

// line is where the processes that write one file wait in line: a lock of the kernel on a file beside it. A process
// that waits for it sleeps until it is free, and the lock ends with its process. SQLite's own lock is taken as well,
// and keeps the file sound; to wait for that one, a process would have to try again and again.
//
// With a nil line nobody waits.
type line struct {
	file  *os.File
	isIn  bool
	began time.Time // of the burst
	left  time.Time
}

// The bytes of the file that are locked.
const (
	turnByte    = 0 // by the process that writes
	presentByte = 1 // by all processes that wait, as a shared lock
)

// openLine opens the line of the file of limits. It returns nil if it has no right to create the line's file: then
// the limits are read-only, or belong to another user.
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

// makeLine creates the line's file with the mode and the owner of the limits, as SQLite does with its other files: all
// who may write the limits wait in line.
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

// wait returns when this process has its turn.
func (l *line) wait() {
	if l == nil {
		return
	}
	if l.lock(unix.F_OFD_SETLK, unix.F_WRLCK, turnByte) == nil {
		if time.Since(l.left) > pause { // others could have had their turn
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

// isOver reports whether the time of the burst is over and others wait.
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

// leave gives the turn to the next process.
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
