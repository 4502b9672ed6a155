//go:build linux

package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// build builds the program name of a package, in a module beside this file, which has its own versions of everything.
// Built once, it takes a second to find that out.
func build(t testing.TB, module, name, of, or string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cache, "elect-test", name)
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", module, "-o", bin, of)
	build.Dir = filepath.Join(filepath.Dir(here), module)
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		Absent(t, fmt.Sprintf("%s cannot be built from %s (%v)%s\n%s", name, of, err, or, out))
	}
	return bin
}
