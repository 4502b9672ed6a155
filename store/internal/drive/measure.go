package drive

import (
	"context"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// within are the bounds by which requests are counted.
var within = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2500 * time.Millisecond,
}

// measured counts the requests of one participant.
type measured struct {
	mu sync.Mutex
	of map[kind]*requests
}

type kind struct {
	op     protocol.Op
	result protocol.Status
}

type requests struct {
	count  uint64
	sum    time.Duration
	within [len(within)]uint64 // cumulative
}

func (m *measured) note(op protocol.Op, result protocol.Status, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of[kind{op, result}]
	if r == nil {
		if m.of == nil {
			m.of = map[kind]*requests{}
		}
		r = &requests{}
		m.of[kind{op, result}] = r
	}
	r.count++
	r.sum += took
	for i, bound := range within {
		if took <= bound {
			r.within[i]++
		}
	}
}

// Measure implements [driver.Measurer].
func (e *Elector) Measure() driver.Measurements {
	m := &e.measured
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]driver.RequestMeasurements, 0, len(m.of))
	for k, r := range m.of {
		one := driver.RequestMeasurements{Op: k.op.String(), Result: k.result.String(), Count: r.count, Sum: r.sum, Within: map[time.Duration]uint64{}}
		for i, bound := range within {
			one.Within[bound] = r.within[i]
		}
		all = append(all, one)
	}
	return driver.Measurements{Requests: all}
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
