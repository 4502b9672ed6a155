package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// StartError means that the command could not be executed because the command line is wrong, and not the machine:
// another attempt will fail too.
type StartError struct {
	Path string // the program, or the command's directory
	Err  error  // the cause, a syscall.Errno if the kernel refused
}

// Error is one line.
func (e *StartError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.ENOEXEC):
		return fmt.Sprintf("%s: not a program (a script needs a first line such as #!/bin/sh)", e.Path)
	case e.notFound():
		if _, err := os.Stat(e.Path); err == nil && strings.Contains(e.Path, "/") {
			return fmt.Sprintf("%s: its interpreter was not found (see its first line, or the loader it was built for)", e.Path)
		}
		return fmt.Sprintf("%s: command not found", e.Path)
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("%s: not executable (%v)", e.Path, e.Err)
	default:
		return fmt.Sprintf("%s: cannot be executed: %v", e.Path, e.Err)
	}
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

func (e *StartError) notFound() bool { return errors.Is(e.Err, fs.ErrNotExist) }

// ExitCode is the exit status of a shell: 127 if the program or its interpreter was not found, else 126.
func (e *StartError) ExitCode() int {
	if e.notFound() {
		return 127
	}
	return 126
}

// LookPath returns the path of the program that Start would execute for name: name itself if it has a slash, else the
// first executable file of that name in the directories of PATH in this process's environment. The error is a
// *StartError. For a name with a slash only Start finds out whether it can be executed.
func LookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	cause := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if dir == "" {
			dir = "." // an empty element has been the current directory since the first Unix shells
		}
		path := dir + "/" + name
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
		case info.Mode()&0o111 == 0:
			cause = syscall.EACCES // found, but a later one may be executable
		default:
			return path, nil
		}
	}
	return "", &StartError{Path: name, Err: cause}
}
