// Package spawn starts processes, each in a process group of its own, that do not outlive this one: on Linux the
// kernel kills them when this process dies in any way. On other systems they live on.
//
// A [Starter] may be used by any number of goroutines until Close. The error of Start is that of [exec.Cmd.Start].
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

// Start starts cmd. It keeps cmd.SysProcAttr, except for the process group and the signal at the death of this
// process.
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

// Close ends the thread that forks. Call it once all processes have ended, and no Start after it: on Linux the kernel
// would kill those that have not ended.
func (s *Starter) Close() {
	s.once.Do(func() {})
	if s.work != nil {
		close(s.work)
		s.work = nil
	}
}
