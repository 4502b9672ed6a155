//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/electd/elect/test/chaos/lives"
)

// usage is what a program reports of itself, in addition to the kernel's figures.
type usage struct {
	At         int64 `json:"at"` // lives.Now
	Pid        int   `json:"pid"`
	Node       int64 `json:"node"`
	Goroutines int   `json:"goroutines"`
}

// count writes dir/usage/PID.json once the program can be asked, and then at each SIGUSR1, until
// ctx ends. Before the file exists SIGUSR1 ends the process. The file is always complete.
func (s surroundings) count(ctx context.Context) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	for {
		u := usage{At: lives.Now(), Pid: os.Getpid(), Node: s.node, Goroutines: runtime.NumGoroutine()}
		if err := s.tell(u); err != nil {
			fmt.Fprintln(os.Stderr, "worker: usage:", err) // the reader of the file gives up
		}
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
	}
}

func (s surroundings) tell(u usage) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "usage")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%d.json", u.Pid))
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
