// Package failed gives the errors of back ends their exit codes. Its functions are pure. They may be called by any
// number of goroutines, and wrap the error that they classify.
package failed

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/store/sqlstore"
)

// Opening gives an error of [elect.Openers.Open] its code. An election that cannot be opened was named wrongly,
// unless the system or the store refused, or the opener has set a code.
func Opening(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*exit.Error](err); ok {
		return exit.With(e.Code, err)
	}
	if code := ofSystem(err); code != 0 {
		return exit.With(code, err)
	}
	if errors.Is(err, sqlstore.ErrRefused) { // that of all stores
		return exit.With(exit.Unavailable, err)
	}
	return exit.With(exit.Usage, err)
}

// Backend gives a back end's error its code, after it was opened.
func Backend(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, elect.ErrNoLeader) {
		return exit.With(exit.NoLeader, err)
	}
	if errors.Is(err, peer.ErrNotPermitted) {
		return exit.With(exit.NotPermitted, err)
	}
	if code := ofSystem(err); code != 0 {
		return exit.With(code, err)
	}
	return exit.With(exit.Unavailable, err)
}

// ofSystem returns 0 if the error is not from a system call.
func ofSystem(err error) int {
	errno, ok := errors.AsType[syscall.Errno](err)
	_, file := errors.AsType[*fs.PathError](err) // and no socket
	switch {
	case file && errors.Is(err, fs.ErrNotExist): // such as one that a URL names
		return exit.CannotCreate
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC),
		// of a disk: no connection returns these
		errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EIO):
		return exit.CannotCreate
	case ok && errno != 0:
		return exit.Unavailable
	}
	return 0
}
