//go:build !linux

package conditions

import (
	"errors"
	"runtime"
	"time"
)

var errLinuxOnly = errors.New("it is read on Linux only")

// System names the system and the architecture.
func System() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Load is the load average of the machine; this system does not tell.
func Load() *[3]float64 { return nil }

// CPUTime is the CPU time of a process.
func CPUTime(int) (time.Duration, error) { return 0, errLinuxOnly }

// Memory is a process's use of memory, in bytes.
type Memory struct{ Resident, Share uint64 }

// MemoryOf reads a process's use of memory.
func MemoryOf(int) (Memory, error) { return Memory{}, errLinuxOnly }

// Filesystem names the kind of file system that a path is on.
func Filesystem(string) (name string, disk bool) { return "unknown", true }
