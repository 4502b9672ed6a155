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

	"github.com/electd/elect/cmd/elect/internal/screen"
)

const (
	dirPrefix = "elect-demo-"
	marker    = ".elect-demo" // a file that marks the directory of a demo
)

// sweeper is a process that outlives this one, in case this one is killed: it restores the terminal and removes the
// directory.
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
	// It has read the terminal's state before this process changes it.
	if _, err := io.ReadFull(said, make([]byte, 1)); err != nil {
		return nil, errors.Join(fmt.Errorf("the sweeper did not start: %w", err), s.end())
	}
	return s, nil
}

// end ends the sweeper, when it has nothing left to do.
func (s *sweeper) end() error {
	_, err := s.lifeline.Write([]byte{done})
	return errors.Join(err, s.lifeline.Close(), s.cmd.Wait())
}

// done is what the sweeper writes when it is ready, and reads when all is in order.
const done = '.'

// Sweep is the sweeper process. It waits until stdin ends, which is when the demo's process has ended. Unless it has
// read done before that, it restores the terminal on stdout, if there is one, and removes the directory, which must
// have been made by a demo; "" is none.
func Sweep(dir string) error {
	immune()
	tty := int(os.Stdout.Fd())
	state, noTerminal := term.GetState(tty)
	if _, err := os.Stderr.Write([]byte{done}); err != nil {
		return err
	}
	if said, err := io.ReadAll(os.Stdin); err != nil || string(said) == string(done) {
		return err
	}
	if noTerminal == nil {
		_, _ = os.Stdout.WriteString(screen.End) // the terminal may be gone
		_ = term.Restore(tty, state)
	}
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); err != nil || !strings.HasPrefix(filepath.Base(dir), dirPrefix) {
		return errors.New("this is the sweeper of elect demo, and " + dir + " is no directory of a demo")
	}
	// The kernel is killing the nodes, and their keepers the jobs. Until that is done, they may still write files.
	for range sweeps {
		if err := remove(dir); err != nil {
			return err
		}
		time.Sleep(sweepAgain)
	}
	return remove(dir)
}

// remove removes a directory in which files may just have been written: the keeper of a killed node may be about to
// kill its job.
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
