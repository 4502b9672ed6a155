package lines

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fromBackground lets the calling goroutine write to the terminal even while another process group has it, usually
// the command's. With `stty tostop` the kernel would stop this process for that, unless the writing thread has the
// signal blocked. The thread ends with the goroutine.
func fromBackground() {
	runtime.LockOSThread()
	var set unix.Sigset_t
	width := int(unsafe.Sizeof(set.Val[0])) * 8
	bit := int(unix.SIGTTOU) - 1
	set.Val[bit/width] |= 1 << (bit % width)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil) // after an error only tostop does not work
}
