package stamp

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// Native reports whether [Build] makes a program without a runtime.
const Native = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"

// Build writes the program into dir and returns its command line. The program allocates and touches memory bytes. If
// it is not [Native] the command line is fallback and the number of bytes: fallback must run [Main].
func Build(dir string, memory uint64, fallback []string) ([]string, error) {
	if !Native {
		return append(fallback[:len(fallback):len(fallback)], strconv.FormatUint(memory, 10)), nil
	}
	return write(dir, "stamp", elf(memory, false))
}

// BuildLast is Build for a program that reports its end: at SIGTERM it writes a record that is Over, and exits with
// 0. It is for [Native] systems only.
func BuildLast(dir string) ([]string, error) {
	if !Native {
		return nil, fmt.Errorf("no measuring program can be made for %s/%s; want linux/amd64", runtime.GOOS, runtime.GOARCH)
	}
	return write(dir, "stamp-last", elf(0, true))
}

func write(dir, name string, program []byte) ([]string, error) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, program, 0o700); err != nil {
		return nil, fmt.Errorf("the measuring program was not written: %w", err)
	}
	return []string{path}, nil
}

// Main does what the program does. It returns only after an error.
func Main(memory uint64) error {
	r := Record{At: Now(), PID: os.Getpid()}
	if _, err := os.Stdout.Write(r.appendTo(nil)); err != nil {
		return err
	}
	var held []byte
	if memory > 0 {
		held = make([]byte, memory)
		for i := 0; i < len(held); i += os.Getpagesize() {
			held[i] = 1
		}
		r.At, r.Ready = Now(), true
		if _, err := os.Stdout.Write(r.appendTo(nil)); err != nil {
			return err
		}
	}
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGTERM)
	<-never
	runtime.KeepAlive(held)
	os.Exit(128 + int(syscall.SIGTERM))
	return nil
}
