package readfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces a file as a whole and creates its directory; see [Replace]. Only its owner can read it. What is no
// file is refused.
func Write(path string, data []byte) error {
	end, info, err := Follow(path)
	if err == nil && info != nil {
		err = Check("write", path, info)
	}
	if err != nil {
		return err
	}
	return Replace(end, info, data, false)
}

// Follow returns the end of the links of a path to write, and what is there; nil for nothing. To replace a link would
// leave the old file where others read it. A descriptor of a process (see [IsDescriptor]) is an end, although it looks
// like a link.
func Follow(path string) (end string, info fs.FileInfo, err error) {
	info, err = os.Stat(path) // first: the kernel may forbid to follow a link of another user
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	end = path
	for range 40 { // as many as Linux follows
		directory, base := filepath.Split(end)
		if info == nil && (base == "" || base == "." || base == "..") {
			return "", nil, &fs.PathError{Op: "write", Path: path, Err: &KindError{fs.ModeDir}}
		}
		if directory, err = filepath.EvalSymlinks(directory); err == nil {
			end = filepath.Join(directory, base)
		}
		target, err := os.Readlink(end)
		if err != nil || IsDescriptor(end) {
			return end, info, nil
		}
		if !filepath.IsAbs(target) { // not joined, which would take l/../x for x
			target = directory + string(filepath.Separator) + target
		}
		end = target
	}
	return "", nil, &fs.PathError{Op: "write", Path: path, Err: errors.New("too many links")}
}

// IsDescriptor reports whether a path without links is a descriptor of a process, such as /proc/7/fd/1. What it is open
// on must be written, and not replaced, even if that is a file: others go on to write there.
func IsDescriptor(path string) bool {
	for _, pattern := range []string{"/dev/fd/*", "/proc/*/fd/*", "/proc/*/task/*/fd/*"} {
		if is, _ := filepath.Match(pattern, filepath.ToSlash(path)); is {
			return true
		}
	}
	return false
}

// Replace puts data in place of a file that [Follow] found, and creates its directory. It writes a second file and
// renames it, so that every reader sees the old or the new one. Of a file that others may read, the mode follows the
// umask, or is that of before, whose owner stays if this user may do that, as root may.
func Replace(path string, before fs.FileInfo, data []byte, shared bool) error {
	mode, directoryMode := fs.FileMode(0o600), fs.FileMode(0o700)
	if shared {
		mode, directoryMode = 0o666, 0o777
	}
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, directoryMode); err != nil {
		return err
	}
	second := filepath.Join(directory, ".limitctl-"+rand.Text()) // a name beside a long one could be too long
	file, err := os.OpenFile(second, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err == nil {
		if shared && before != nil {
			keepOwner(file, before)
			err = file.Chmod(before.Mode().Perm())
		}
		err = fill(file, data, err)
		if err == nil {
			err = os.Rename(second, path)
		}
		if err != nil {
			os.Remove(second)
		}
	}
	if before != nil && isFixed(err) {
		if file, err = os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|Unblocked, 0); err == nil {
			err = fill(file, data, nil)
		}
	}
	return named(path, err)
}

// fill writes and closes a file, if err is nil.
func fill(file *os.File, data []byte, err error) error {
	if err == nil {
		_, err = file.Write(data)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// isFixed reports whether a file's name cannot be given to another one. The file may be written to all the same: in the
// directory of another user, or mounted alone into a container.
func isFixed(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EROFS)
}

// CanReplace tries the steps of [Replace] in the directory, or the nearest existing one above, and leaves nothing
// behind.
func CanReplace(path string, before fs.FileInfo) error {
	directory := filepath.Dir(path)
	for {
		if _, err := os.Lstat(directory); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		directory = filepath.Dir(directory)
	}
	file, err := os.CreateTemp(directory, ".limitctl-*")
	if err == nil {
		return errors.Join(file.Close(), os.Remove(file.Name()))
	}
	if before != nil && isFixed(err) {
		if file, err = os.OpenFile(path, os.O_WRONLY|Unblocked, 0); err == nil {
			return file.Close()
		}
	}
	return named(path, err)
}

// named returns err with the path that the user knows.
func named(path string, err error) error {
	var ofFile *fs.PathError
	var ofRename *os.LinkError
	switch {
	case errors.As(err, &ofFile):
		err = &fs.PathError{Op: "write", Path: path, Err: ofFile.Err}
	case errors.As(err, &ofRename):
		err = &fs.PathError{Op: "write", Path: path, Err: ofRename.Err}
	}
	return err
}
