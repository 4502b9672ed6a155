// Package long tells tests how much to do. By default tests take seconds and need only Go. The variable ELECT_LONG of
// the environment asks for more:
//
//	ELECT_LONG=1               everything in full, as make long does
//	ELECT_LONG=ci              the share of it that CI has time for
//	ELECT_LONG=ci:DIR,DIR      that share in these packages, and no more than by default in others
//
// DIR is the path of a package from the root of the repository, such as peer/internal/link. Its functions may be called
// concurrently. Any other value fails the test that calls them.
package long

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/race"
)

type level int

const (
	quick level = iota
	share
	full
)

func asked() level {
	value := os.Getenv("ELECT_LONG")
	if dirs, ok := strings.CutPrefix(value, "ci:"); ok {
		if slices.Contains(strings.Split(dirs, ","), tested()) {
			return share
		}
		return quick
	}
	switch value {
	case "":
		return quick
	case "ci":
		return share
	case "1":
		return full
	default:
		panic(fmt.Sprintf("ELECT_LONG is %q; want 1, ci, ci:DIR,DIR, or none", value))
	}
}

// tested returns the directory of the package that this program tests, from the root of the repository.
func tested() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		panic("long: this program does not say what it was built from")
	}
	dir, inside := strings.CutPrefix(strings.TrimSuffix(info.Path, ".test"), "github.com/electd/elect/")
	if !inside {
		return "."
	}
	return dir
}

// Asked reports whether the long tests run.
func Asked() bool { return asked() >= share }

// Test skips t unless the long tests run. It is for tests that start servers or a
// cluster of processes, wait for real time, or take more than a few seconds.
func Test(t testing.TB, why string) {
	t.Helper()
	if !Asked() {
		t.Skip("a long test, run by make long: " + why)
	}
}

// Full skips t unless the long tests run in full. CI does not run it.
func Full(t testing.TB, why string) {
	t.Helper()
	if asked() < full {
		t.Skip("run by make long, and not by CI: " + why)
	}
}

// Many reports whether the long tests run, and the race detector is off: a loop in one
// goroutine takes ten times as long under it and shows nothing more.
func Many() bool { return Asked() && !race.Enabled }

// Or is many if Many returns true, and otherwise few.
func Or[T any](many, few T) T {
	if Many() {
		return many
	}
	return few
}

// FullOr is all if the long tests run in full, and otherwise some.
func FullOr[T any](all, some T) T {
	if asked() < full {
		return some
	}
	return all
}
