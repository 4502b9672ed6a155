package keeper

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const getModes, setModes = unix.TCGETS, unix.TCSETS

// withoutTTOU runs f with SIGTTOU blocked on its thread, so that the terminal accepts requests from the background
// and no child inherits an ignored signal.
func withoutTTOU(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return
	}
	f()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}
