//go:build !linux

package demo

import (
	"os/exec"
	"strconv"
	"strings"
)

// stopped reports whether a child has stopped.
func stopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return strings.HasPrefix(strings.TrimSpace(string(state)), "T"), err
}
