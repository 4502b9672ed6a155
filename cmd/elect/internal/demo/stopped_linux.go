package demo

import "golang.org/x/sys/unix"

// stopped reports whether all threads of a child have stopped. A signal stops them one after the other, and until
// then each goes on.
func stopped(pid int) (bool, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil && info.Signo != 0, err
		}
	}
}
