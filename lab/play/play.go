// Package play lets a visitor look at a run of the simulator or at a recorded trace, forwards and
// backwards, event by event, and inject faults into a run. The laboratory's page calls it in JSON.
// It draws nothing.
//
// A [Player] has one run at a time, beside those that it keeps, and belongs to one goroutine. A run is described by a
// [World]: the same World gives the same run, with the same hash, in a browser and on the command line. A run is
// executed once, by Grow, while what happens is recorded for the lanes and the log; any event of it is then reached
// through a [sim.History].
//
// A trace is what any program recorded in the schema of package trace. Its events are made into the
// records of a run, and are looked at in the same way; no fault can be injected. What it does not
// tell is left out, and [Overview.Trace] lists it.
//
// Errors are those of the caller: an unknown method or field, an impossible world, an event that
// the run does not have. They say what is wrong and what would be right, and leave the run as it
// was.
package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Player answers the calls of one page.
type Player struct {
	// Progress, if not nil, is called now and then during a long call, possibly by several
	// goroutines at a time.
	Progress func(done, all uint64)

	run  *run
	kept []*run
}

// New returns a Player without a run.
func New() *Player { return new(Player) }

// methods are those that a page may call.
var methods = map[string]func(p *Player, params []byte) (any, error){
	"catalogue": method((*Player).catalogue),
	"open":      method((*Player).open),
	"trace":     method((*Player).trace),
	"grow":      method((*Player).grow),
	"do":        method((*Player).do),
	"drop":      method((*Player).drop),
	"state":     method((*Player).state),
	"keep":      method((*Player).keep),
	"states":    method((*Player).states),
	"log":       method((*Player).log),
	"cause":     method((*Player).cause),
	"letters":   method((*Player).letters),
	"schedule":  method((*Player).encode),
	"story":     method((*Player).story),
	"challenge": method((*Player).challenge),
	"judge":     method((*Player).judge),
	"compare":   method((*Player).compare),
}

// Call answers one call: params and result are JSON.
func (p *Player) Call(name string, params []byte) ([]byte, error) {
	m, ok := methods[name]
	if !ok {
		return nil, fmt.Errorf("method %q; want %s", name, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
	}
	result, err := m(p, params)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// method decodes the parameters of f, and refuses fields that f does not have.
func method[P any](f func(p *Player, params *P) (any, error)) func(*Player, []byte) (any, error) {
	return func(p *Player, text []byte) (any, error) {
		var params P
		if len(bytes.TrimSpace(text)) > 0 {
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(&params); err != nil {
				return nil, fmt.Errorf("parameters: %w", err)
			}
			if _, err := d.Token(); !errors.Is(err, io.EOF) {
				return nil, errors.New("parameters: more than one value; want one object")
			}
		}
		return f(p, &params)
	}
}

// errNone is the error of a call that needs a run, if there is none, and errTrace of a call that
// needs a world, if there is a trace.
var (
	errNone  = errors.New("there is no world; call open first")
	errTrace = errors.New("this is a recorded trace; want a world")
)

// played is the run of a world.
func (p *Player) played() (*run, error) {
	switch {
	case p.run == nil:
		return nil, errNone
	case p.run.tape != nil:
		return nil, errTrace
	}
	return p.run, nil
}
