// Package watchdog feeds a watchdog device, which resets the machine when it is not fed in time: the last resort, when a
// term cannot be ended in any other way.
//
// The device is fed while every term that has armed it can prove its lease for longer than the timeout. So the machine
// is reset before a lease ends, whatever hangs, unless the term was disarmed first. If this process is killed, the
// device goes on: the machine is reset, unless another process disarms it in time.
//
// A [Watchdog] may be used by any number of goroutines. While nothing is armed the device is closed, and does nothing.
//
// Source: Documentation/watchdog/watchdog-api.rst of the Linux kernel.
package watchdog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Watchdog is one device. Make it with New.
type Watchdog struct {
	path    string
	timeout time.Duration
	log     *slog.Logger

	mu    sync.Mutex
	file  io.WriteCloser // nil while nothing is armed
	terms map[string]Lease
	over  chan struct{} // closed when feed is to end
}

// Lease returns for how long a term is proven, and false if it has no end.
type Lease func() (left time.Duration, bounded bool)

// New returns the Watchdog of the device at a path. It does not open it. The timeout is whole seconds. A path that is no
// device gets the same bytes, to try everything but the reset.
func New(path string, timeout time.Duration, log *slog.Logger) *Watchdog {
	return &Watchdog{path: path, timeout: timeout, log: log, terms: map[string]Lease{}}
}

// Timeout is how long after the last feeding the machine is reset.
func (w *Watchdog) Timeout() time.Duration { return w.timeout }

// shares is how many times in a timeout it is looked whether the device may be fed.
const shares = 8

// Arm has the device guard a term from now on. After an error it does not. A term that is not proven for as long as the
// timeout is refused: the machine would be reset after its lease.
func (w *Watchdog) Arm(name string, of Lease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left, bounded := of(); bounded && left < w.timeout {
		return fmt.Errorf("the watchdog device: %v of the lease are left, and its timeout is %v; want a lease that is renewed", left.Round(time.Millisecond), w.timeout)
	}
	if w.file == nil {
		f, err := open(w.path, w.timeout)
		if err != nil {
			return fmt.Errorf("the watchdog device: %w", err)
		}
		w.file, w.over = f, make(chan struct{})
		go w.feed(w.over)
	}
	w.terms[name] = of
	return nil
}

// Abandon says that a term has not ended as it must: the device is fed no more, unless the term is disarmed.
func (w *Watchdog) Abandon(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, armed := w.terms[name]; armed {
		w.terms[name] = func() (time.Duration, bool) { return 0, true }
	}
}

// Disarm says that a term is over. A term of an earlier process, which has not armed this Watchdog, is disarmed, too.
func (w *Watchdog) Disarm(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.terms, name)
	if len(w.terms) > 0 {
		return nil
	}
	if w.file == nil {
		f, err := open(w.path, w.timeout)
		if err != nil {
			return fmt.Errorf("the watchdog device: %w", err)
		}
		w.file, w.over = f, make(chan struct{})
	}
	close(w.over)
	_, err := io.WriteString(w.file, "V") // the magic close: a device closed without it goes on
	err = errors.Join(err, w.file.Close())
	w.file = nil
	return err
}

func (w *Watchdog) feed(over chan struct{}) {
	tick := time.NewTicker(w.timeout / shares)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		hungry, err := "", error(nil)
		for name, of := range w.terms {
			if left, bounded := of(); bounded && left < w.timeout {
				hungry = name
			}
		}
		if w.file != nil && over == w.over && hungry == "" {
			_, err = w.file.Write([]byte{0})
		}
		w.mu.Unlock()
		switch {
		case hungry != "" && !told:
			told = true
			w.log.Error("the watchdog is not fed: this machine is reset soon, unless the term ends", "election", hungry, "within", w.timeout)
		case err != nil && !told:
			told = true
			w.log.Error("the watchdog cannot be fed", "error", err)
		case hungry == "" && err == nil:
			told = false
		}
	}
}

// open opens the device, which arms it, and sets its timeout.
func open(path string, timeout time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice != 0 {
		err = setTimeout(f, timeout)
	}
	if err != nil {
		_, _ = io.WriteString(f, "V") // as far as it goes
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}
