//go:build linux

package storm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
)

func processors() int { return runtime.NumCPU() }

const (
	beat     = 5 * time.Millisecond  // between two checks whether this process runs
	stall    = 50 * time.Millisecond // a pause of it that is recorded
	sampling = 5 * time.Second       // between two samples of processes' resources, for which all of /proc is read
	keeping  = 20 * time.Second      // between two copies of the flight records, which rotate
)

// pulse records when this process, and so the computer, did not run, until ctx ends.
func (r *rig) pulse(ctx context.Context) {
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := time.Now()
		if gap := now.Sub(last); gap > stall {
			r.history.Add(judge.Event{Kind: judge.Stall, Node: judge.NoNode, For: gap})
		}
		last = now
	}
}

// record copies the flight records again and again, until ctx ends. Errors are of disks with a
// fault, and the last copy is made when there is none.
func (r *rig) record(ctx context.Context) {
	for sleep(ctx, keeping) {
		for i := range r.disks {
			_ = r.keep(i, false)
		}
	}
}

// sample records the resources of the nodes' processes, and the terms that they report, until ctx
// ends.
func (r *rig) sample(ctx context.Context) {
	ticks := time.NewTicker(sampling)
	defer ticks.Stop()
	for {
		for i := range r.plan.Size {
			u, err := r.cluster.Usage(i)
			if err != nil {
				continue // it does not run, or was killed meanwhile
			}
			usage := u.Usage
			r.history.Add(judge.Event{Kind: judge.Used, Node: i, Pid: u.Pid, Usage: &usage})
		}
		if r.net != nil {
			asked, cancel := context.WithTimeout(ctx, time.Second)
			if m, err := r.cluster.Members(asked); err == nil {
				for i, n := range m.Nodes {
					if n != nil && n.Term > 0 {
						r.history.Add(judge.Event{Kind: judge.Told, Node: i, Term: int64(n.Term)})
					}
				}
			}
			cancel()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// watchers watch the election all the time.
type watchers struct {
	r    *rig
	mu   sync.Mutex
	over bool
	lost []string
	all  []*cluster.Auxiliary
}

// watch starts watchers: one by the library, one by the command.
func (r *rig) watch() (*watchers, error) {
	w := &watchers{r: r}
	library, err1 := r.cluster.StartAuxiliary("watch-library", nil, r.worker, "watch", "--election", r.cluster.URL(-1), "--name", r.cluster.Name(), "--as", "library")
	// Its output is its record, so a shell redirects it.
	command, err2 := r.cluster.StartAuxiliary("watch-command", []string{"ELECT=" + r.elect, "RECORD=" + filepath.Join(r.dir, "watch", "command.ndjson")},
		"/bin/sh", "-c", `exec "$ELECT" watch -o json >>"$RECORD"`)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	w.all = []*cluster.Auxiliary{library, command}
	for _, name := range []string{"library", "command"} {
		r.history.Add(judge.Event{Kind: judge.Watched, Node: judge.NoNode, Text: name})
	}
	for i, name := range []string{"the library's watcher", "elect watch"} {
		go func() {
			<-w.all[i].Done()
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.over {
				words, _ := w.all[i].Wait(context.Background()) // it has ended
				w.lost = append(w.lost, fmt.Sprintf("%s has ended: %s", name, words))
			}
		}()
	}
	return w, nil
}

// end allows the watchers to end from now on, and returns which of them had ended before.
func (w *watchers) end() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.lost
}
