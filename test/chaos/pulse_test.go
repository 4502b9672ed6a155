//go:build linux

package chaos

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/electd/elect/test/chaos/lives"
)

// The times of an election are for processes that run when they want to. On a computer that makes
// them wait, a delay says nothing about the election.
const (
	// hitch is how long the harness, or a node, may get no processor.
	hitch = promise / 4

	// crush is the greatest average number of runnable threads for a processor.
	crush = 4
)

// strain is how short of processors a computer was.
type strain struct {
	pause   time.Duration // the longest, of the harness or of an unaffected node
	threads float64       // runnable threads, on average, for each processor
}

// excuses reports whether that excuses a delay.
func (s strain) excuses() bool { return s.pause > hitch || s.threads > crush }

func (s strain) String() string {
	return fmt.Sprintf("a process got no processor for %v at most, and %.1f threads wanted to run on each", shown(s.pause), s.threads)
}

// pulse measures how late this process runs, and how many threads are runnable.
type pulse struct {
	stop func()
	done chan struct{}

	// Of the measuring goroutine, until done is closed.
	longest         time.Duration
	threads, looked int
}

// newPulse measures until end.
func newPulse() *pulse {
	const every, seldom = 5 * time.Millisecond, 10
	stop := make(chan struct{})
	p := &pulse{stop: sync.OnceFunc(func() { close(stop) }), done: make(chan struct{})}
	clock := lives.NewClock()
	go func() {
		defer close(p.done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		last := clock.Now()
		for i := 0; ; i++ {
			select {
			case <-ticks.C:
			case <-stop:
				return
			}
			now := clock.Now()
			p.longest = max(p.longest, time.Duration(now-last)-every)
			last = now
			if i%seldom == 0 {
				p.threads += runnable()
				p.looked++
			}
		}
	}()
	return p
}

// runnable is the number of runnable threads of the computer except this one; 0 if it is not known.
func runnable() int {
	var load [3]float64
	var n int
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Fscanf(bytes.NewReader(text), "%f %f %f %d/", &load[0], &load[1], &load[2], &n)
	}
	if err != nil {
		return 0
	}
	return n - 1
}

// end stops the measurement.
func (p *pulse) end() strain {
	p.stop()
	<-p.done
	return strain{p.longest, float64(p.threads) / float64(max(p.looked, 1)*runtime.NumCPU())}
}

// strained is how short of processors the computer was during the play.
func (s *trial) strained() strain {
	found := s.pulse.end()
	late := regexp.MustCompile(`did not run for a while.* late[:=] ?([0-9.a-zµ]+)`)
	for i := range s.size {
		text, err := os.ReadFile(s.cluster.Log(i))
		if err != nil || s.frozen[i] {
			continue
		}
		for _, m := range late.FindAllSubmatch(text, -1) {
			if d, err := time.ParseDuration(string(m[1])); err == nil {
				found.pause = max(found.pause, d)
			}
		}
	}
	return found
}
