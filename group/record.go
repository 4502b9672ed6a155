package group

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/electd/elect/internal/flight"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// record is a flight recorder of this member, or of its terms as coordinator. Nil records nothing.
type record struct {
	*flight.Recorder
	dir *place.Dir // locked
}

// records opens the two of this member. Without them, a line says so.
func (g *Group) records(unclocked bool) (member, coordinator *record) {
	if g.cfg.Flight == "" {
		return nil, nil
	}
	config, err := json.Marshal(trace.GroupConfig{Settings: g.settings, Unclocked: unclocked, Observer: g.cfg.Observer})
	if err == nil {
		member, err = g.openRecord("member", config)
	}
	if err == nil {
		coordinator, err = g.openRecord("coordinator", config)
	}
	if err != nil {
		member.close()
		g.log.Warn("no flight record", "error", err)
		return nil, nil
	}
	return member, coordinator
}

func (g *Group) openRecord(part string, config json.RawMessage) (*record, error) {
	path, err := filepath.Abs(g.cfg.Flight)
	if err != nil {
		return nil, err
	}
	at := place.At{Path: path, Below: []string{g.cfg.Name, part}}
	dir, err := at.Make()
	if err != nil {
		return nil, err
	}
	if err := dir.Lock(); err != nil {
		dir.Close()
		return nil, fmt.Errorf("%w; want a directory that no other member of the group uses", err)
	}
	f, err := flight.Open(flight.Config{Dir: at, Node: protocol.NodeID(g.id), Protocol: trace.Groups, Config: config})
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &record{f, dir}, nil
}

// close closes the record. It waits at most a second for the disk.
func (r *record) close() {
	if r == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		_ = r.Close() // what was recorded is already written
		r.dir.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
