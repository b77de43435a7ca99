package alarm

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exact is an Alarm with a timer of the kernel. The runtime waits for it like for connections: with all others in
// one call, and without a thread.
type exact struct {
	file *os.File
	conn syscall.RawConn
	// wait and set belong to the sleep under way.
	wait  time.Duration
	set   bool
	ready func(fd uintptr) bool
}

// newExact returns nil if there is no such timer.
func newExact() Alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	a := &exact{file: os.NewFile(uintptr(fd), "timer")}
	if a.conn, err = a.file.SyscallConn(); err != nil || a.file.SetReadDeadline(time.Time{}) != nil {
		a.Close() // the runtime cannot wait for it
		return nil
	}
	a.ready = func(fd uintptr) bool {
		if a.set {
			return true
		}
		a.set = true
		once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(a.wait, 1)))} // 0 would mean never
		return unix.TimerfdSettime(int(fd), 0, &once, nil) != nil
	}
	return a
}

// Wait implements [Alarm].
func (a *exact) Wait(d time.Duration) {
	a.wait, a.set = d, false
	_ = a.conn.Read(a.ready) // fails only if interrupted
}

// Interrupt implements [Alarm].
func (a *exact) Interrupt() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) } // in the past

// Close implements [Alarm].
func (a *exact) Close() { _ = a.file.Close() }
