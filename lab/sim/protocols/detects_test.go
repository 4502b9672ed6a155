package protocols_test

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/lab/sim/protocols"
)

// Every protocol knows the time after which a silent leader is lost, and has a configuration for
// such a time, or says why it has none.
func TestDetects(t *testing.T) {
	for _, p := range slices.Concat(protocols.All(), protocols.Naive()) {
		if d, err := p.Silence(nil); err != nil || d < 100*time.Millisecond || d > time.Minute {
			t.Errorf("%s: by default a silent leader is given up after %v, %v", p.Name, d, err)
		}
		for _, d := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 10 * time.Second} {
			raw, err := p.Detects(d)
			if err != nil {
				t.Errorf("%s: no configuration for %v: %v", p.Name, d, err)
				continue
			}
			least, most := d-time.Millisecond, 3*d/2
			if p.Name == "queue" { // etcd counts whole seconds, and two at least
				most = max(d+time.Second, 2*time.Second)
			}
			if got, err := p.Silence(raw); err != nil || got < least || got > most {
				t.Errorf("%s: with %s a silent leader is given up after %v, %v; want about %v", p.Name, raw, got, err, d)
			}
			if _, err := p.New(participant(raw)); err != nil {
				t.Errorf("%s: no machine with %s: %v", p.Name, raw, err)
			}
		}
		if _, err := p.Detects(time.Microsecond); err == nil && p.Name != "queue" {
			t.Errorf("%s: a silent leader is noticed after a microsecond", p.Name)
		}
	}
}
