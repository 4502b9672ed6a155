//go:build linux

package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Programs are the paths of the programs that a cluster runs.
type Programs struct{ Elect, Worker string }

// The packages of the programs.
const (
	electPackage  = "github.com/electd/elect/cmd/elect"
	workerPackage = "github.com/electd/elect/test/chaos/worker"
)

// Build builds both programs into dir, which it makes, with the given build tags, from the sources
// of this package. They are built without the race detector, whatever GOFLAGS says, as users run
// them.
func Build(ctx context.Context, dir string, tags ...string) (Programs, error) {
	root, err := sources()
	if err != nil {
		return Programs{}, fmt.Errorf("cluster: %w", err)
	}
	if err := look(root); err != nil {
		return Programs{}, fmt.Errorf("cluster: the sources: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return Programs{}, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return Programs{}, err
	}
	p := Programs{Elect: filepath.Join(dir, "elect"), Worker: filepath.Join(dir, "worker")}
	for _, c := range [][2]string{{electPackage, p.Elect}, {workerPackage, p.Worker}} {
		// go run keeps what it has linked, so that it is only copied the next time.
		cmd := exec.CommandContext(ctx, "go", "run", "-race=false", "-buildvcs=false", "-tags="+strings.Join(tags, ","), "-exec=cp", c[0], c[1])
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return Programs{}, fmt.Errorf("cluster: %s: %w: %s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return p, nil
}

// sources is the root of the sources, where the workspace file is: above this file, or above the
// working directory if the build has no file paths.
func sources() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Dir(self), here} {
		for filepath.IsAbs(dir) && dir != "/" {
			if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
				return dir, nil
			}
			dir = filepath.Dir(dir)
		}
	}
	return "", fmt.Errorf("no go.work above %s: the programs are built from the sources, so start it there", here)
}

// look reads every source file. The go command does not cache a test's result across a change of a
// file that the test has opened; it would not know of the files that are built here.
func look(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case slices.Contains([]string{".go", ".mod", ".sum", ".work"}, filepath.Ext(path)):
			_, err = os.Stat(path)
		}
		return err
	})
}
