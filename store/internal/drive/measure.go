package drive

import (
	"context"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// measured counts the requests of one participant.
type measured struct {
	mu sync.Mutex
	of map[kind]*runtime.Durations
}

type kind struct {
	op     protocol.Op
	result protocol.Status
}

func (m *measured) note(op protocol.Op, result protocol.Status, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.of[kind{op, result}]
	if d == nil {
		if m.of == nil {
			m.of = map[kind]*runtime.Durations{}
		}
		d = &runtime.Durations{}
		m.of[kind{op, result}] = d
	}
	d.Note(took)
}

// Measure implements [driver.Measurer].
func (e *Elector) Measure() driver.Measurements {
	m := &e.measured
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]driver.RequestMeasurements, 0, len(m.of))
	for k, d := range m.of {
		all = append(all, driver.RequestMeasurements{Op: k.op.String(), Result: k.result.String(), Durations: d.Measured()})
	}
	return driver.Measurements{Renewals: e.Run.Counters().Renewals, Requests: all}
}

// Probe repeats a request that returns how long it took, 20 times, or for a second and at least three times. The first
// one, which may connect, does not count, nor does one that took 0.
func Probe(ctx context.Context, request func(context.Context) (time.Duration, error)) (took []time.Duration, err error) {
	begun := time.Now()
	for i := 0; i <= 20 && (i <= 3 || time.Since(begun) < time.Second); i++ {
		d, err := request(ctx)
		if err != nil {
			return nil, err
		}
		if i > 0 && d > 0 {
			took = append(took, d)
		}
	}
	return took, nil
}
