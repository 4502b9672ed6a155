package fleet

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter starts processes that the kernel kills when this one dies. The kernel
// takes the death of the thread that forked for that of the process, so one
// thread forks all, and lives as long as they do. The zero starter is ready.
type starter struct {
	once sync.Once
	work chan func()
}

func (s *starter) start(cmd *exec.Cmd) error {
	s.once.Do(func() {
		s.work = make(chan func())
		go func() {
			runtime.LockOSThread()
			for do := range s.work {
				do()
			}
		}()
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // Ctrl-C is ours to deal with
		Pdeathsig: syscall.SIGKILL,
	}
	result := make(chan error)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// close is called when all have ended, and no start follows.
func (s *starter) close() {
	s.once.Do(func() {})
	if s.work != nil {
		close(s.work)
		s.work = nil
	}
}
