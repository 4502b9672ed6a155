//go:build linux

package warp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Offsets returns how far the clocks of this process are ahead of those of the machine's first time namespace. They
// do not change while a process lives. Without time namespaces in the kernel they are 0.
func Offsets() (boottime, monotonic time.Duration, err error) {
	const path = "/proc/self/timens_offsets"
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		clock, d, err := offset(strings.Fields(line))
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		switch clock {
		case "boottime":
			boottime = d
		case "monotonic":
			monotonic = d
		}
	}
	return boottime, monotonic, nil
}

// offset parses a clock's name, its seconds and its nanoseconds.
func offset(fields []string) (clock string, d time.Duration, err error) {
	if len(fields) != 3 {
		return "", 0, errors.New("want a clock, seconds and nanoseconds")
	}
	s, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return "", 0, err
	}
	ns, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return "", 0, err
	}
	return fields[0], time.Duration(s)*time.Second + time.Duration(ns), nil
}
