// Package spawn starts processes, each in a process group of its own, that do not
// outlive this one: on Linux the kernel kills them when it dies, however that
// happens. Elsewhere they live on.
//
// A [Starter] may be used by any number of goroutines until Close. What Start
// returns is the error of [exec.Cmd.Start].
package spawn

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Starter starts processes. The zero Starter is ready. To the kernel the death of
// the thread that forked is that of the process (prctl(2), PR_SET_PDEATHSIG), so
// one thread forks all of them, and lives until Close.
type Starter struct {
	once sync.Once
	work chan func()
}

// Start starts cmd. Its SysProcAttr is kept, but for the process group and the signal at
// the death of this process.
func (s *Starter) Start(cmd *exec.Cmd) error {
	s.once.Do(func() {
		s.work = make(chan func())
		go func() {
			runtime.LockOSThread()
			for do := range s.work {
				do()
			}
		}()
	})
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	tie(cmd.SysProcAttr)
	result := make(chan error)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// Close ends the thread that forks. It is called once all processes have ended, and no
// Start may follow: on Linux the kernel would kill those that have not.
func (s *Starter) Close() {
	s.once.Do(func() {})
	if s.work != nil {
		close(s.work)
		s.work = nil
	}
}
