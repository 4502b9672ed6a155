package watchdog

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setTimeout sets the timeout. A device may round it; one that makes it longer is refused.
func setTimeout(f *os.File, timeout time.Duration) error {
	fd, want := int(f.Fd()), int(timeout/time.Second)
	if err := unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, want); err != nil {
		return fmt.Errorf("it takes no timeout of %v (%w); want a watchdog device, and a timeout that it has", timeout, err)
	}
	got, err := unix.IoctlGetInt(fd, unix.WDIOC_GETTIMEOUT)
	if err == nil && got > want {
		err = fmt.Errorf("it resets after %d s, and not after %d; want a timeout that it has", got, want)
	}
	return err
}
