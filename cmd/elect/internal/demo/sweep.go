package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"
)

const (
	dirPrefix = "elect-demo-"
	marker    = ".elect-demo" // a file that says that the directory is a demo's
)

// sweeper is a process that outlives this one, for the case that this one is
// killed: it gives the terminal back and removes the directory.
type sweeper struct {
	cmd      *exec.Cmd
	lifeline io.WriteCloser
}

// startSweeper starts it. The terminal may be nil, the directory empty.
func startSweeper(program, verb, dir string, terminal *os.File) (*sweeper, error) {
	s := &sweeper{cmd: exec.Command(program, verb, dir)}
	s.cmd.Stdout = nil
	if terminal != nil {
		s.cmd.Stdout = terminal
	}
	s.cmd.Dir = "/"
	detach(s.cmd)
	lifeline, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, lifeline.Close())
	}
	s.lifeline = lifeline
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	// It has looked at the terminal before this process changes it.
	if _, err := io.ReadFull(said, make([]byte, 1)); err != nil {
		return nil, errors.Join(fmt.Errorf("the sweeper did not start: %w", err), s.end())
	}
	return s, nil
}

// end lets it go, when there is nothing left for it to do.
func (s *sweeper) end() error {
	_, err := s.lifeline.Write([]byte{done})
	return errors.Join(err, s.lifeline.Close(), s.cmd.Wait())
}

// done is what the sweeper says when it is ready, and reads when everything is
// in order.
const done = '.'

// Sweep is the sweeper process: it waits until stdin ends, which is when the
// demo's process has ended. Unless that said before that all is done, it gives
// the terminal on stdout back, if there is one, and removes the directory, which
// must be one that a demo has made; "" is none.
func Sweep(dir string) error {
	immune()
	screen := int(os.Stdout.Fd())
	state, noTerminal := term.GetState(screen)
	if _, err := os.Stderr.Write([]byte{done}); err != nil {
		return err
	}
	if said, err := io.ReadAll(os.Stdin); err != nil || string(said) == string(done) {
		return err
	}
	if noTerminal == nil {
		_, _ = os.Stdout.WriteString(leaveScreen) // the terminal may be gone
		_ = term.Restore(screen, state)
	}
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); err != nil || !strings.HasPrefix(filepath.Base(dir), dirPrefix) {
		return errors.New("this is the sweeper of elect demo, and " + dir + " is no directory of a demo")
	}
	// The nodes are being killed by the kernel and their jobs by their keepers.
	// Until that is done, something may still be written.
	for range sweeps {
		if err := remove(dir); err != nil {
			return err
		}
		time.Sleep(sweepAgain)
	}
	return remove(dir)
}

// remove removes a directory in which something may just have been written: the
// keeper of a node that was killed may be about to kill its job.
func remove(dir string) (err error) {
	for range sweeps {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(sweepAgain)
	}
	return err
}

const (
	sweeps     = 10
	sweepAgain = 100 * time.Millisecond
)
