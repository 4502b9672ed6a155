package drive

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/electd/elect/internal/flight"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// recorder is the flight recorder of a candidate. It begins soon after the first candidacy, because a participant that
// only watches must not write where the leader does. No turn waits for the disk.
type recorder struct {
	e     *Elector
	open  func() (*flight.Recorder, *place.Dir, error)
	tried bool // owned by turns

	mu     sync.Mutex
	closed bool
	dir    *place.Dir // locked
	flight *flight.Recorder
}

// recorder returns the recorder of the machine that was made from config, nil if there is none, and a function that
// closes it after the last step.
func (e *Elector) recorder(protocolName string, config any) (runtime.Recorder, func()) {
	if e.cfg.Flight == "" {
		return nil, func() {}
	}
	r := &recorder{e: e, open: func() (*flight.Recorder, *place.Dir, error) {
		text, err := json.Marshal(config)
		if err != nil {
			return nil, nil, err
		}
		path, err := filepath.Abs(e.cfg.Flight)
		if err != nil {
			return nil, nil, err
		}
		at := place.At{Path: path, Below: []string{e.cfg.Name}}
		dir, err := at.Make()
		if err != nil {
			return nil, nil, err
		}
		if err := dir.Lock(); err != nil {
			dir.Close()
			return nil, nil, fmt.Errorf("%w; want a directory that no other candidate of the election uses", err)
		}
		f, err := flight.Open(flight.Config{Dir: at, Node: protocol.NodeID(e.cfg.ID), Protocol: protocolName, Config: text})
		if err != nil {
			dir.Close()
		}
		return f, dir, err
	}}
	return r, r.close
}

// Step implements [runtime.Recorder].
func (r *recorder) Step(in *protocol.Input, fx *protocol.Effects, v *protocol.View, state func() []byte) {
	if !r.tried && r.e.stood {
		r.tried = true
		go r.begin() // nothing waits for it: the disk may hang
	}
	r.mu.Lock()
	f := r.flight
	r.mu.Unlock()
	if f != nil {
		f.Step(in, fx, v, state)
	}
}

func (r *recorder) begin() {
	f, dir, err := r.open()
	if err != nil {
		r.e.Log.Warn("no flight record", "error", err)
		return
	}
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.flight, r.dir = f, dir
	}
	r.mu.Unlock()
	if closed {
		_ = f.Close() // it is empty
		dir.Close()
	}
}

// close closes the record. It waits at most a second for the disk.
func (r *recorder) close() {
	r.mu.Lock()
	f, dir := r.flight, r.dir
	r.closed, r.flight = true, nil
	r.mu.Unlock()
	if f == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		_ = f.Close() // what was recorded is already written
		dir.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
