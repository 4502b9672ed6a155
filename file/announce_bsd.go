//go:build darwin || freebsd

package file

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// announce does nothing: these systems have no lock that belongs to an open file and can be queried. An answer on the
// leader's control socket takes its place.
func announce(int) error { return nil }

func unannounce(int) error { return nil }

// announced reports whether a process accepts connections on the control socket of the election in dir.
func announced(_ int, dir string) (bool, error) {
	conn, err := net.DialTimeout("unix", dir+"/"+controlName, time.Second)
	switch {
	case err == nil:
		return true, conn.Close()
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return false, nil
	}
	return false, err
}
