//go:build unix

package screen

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// keyWait bounds how long the end of reading keys goes unnoticed.
const keyWait = 100 // ms

// ReadKeys sends the pressed keys until ctx ends. It fails when the terminal goes away.
func ReadKeys(ctx context.Context, in *os.File, keys chan<- string) error {
	buf := make([]byte, 256)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, keyWait)
		if errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if n, err = in.Read(buf); err != nil {
			return errors.New("the terminal is gone")
		}
		for _, key := range Split(string(buf[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// WatchSize reports changes of the terminal's size.
func WatchSize() (changed <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	return ch, func() { signal.Stop(ch) }
}

const continueSignal = syscall.SIGCONT

// stop stops this process and those that a shell started with it. A process that no shell could continue is not
// stopped.
func stop() { _ = syscall.Kill(0, syscall.SIGTSTP) }
