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

// An election's times are for processes that run when they want to. Where a machine
// leaves them waiting, what comes too late says nothing about the election.
const (
	// hitch is how long the harness, or a node, may get no processor.
	hitch = promise / 4

	// crush is how many threads a processor may have to run, on average.
	crush = 4
)

// strain is how much a machine was short of processors.
type strain struct {
	pause   time.Duration // the longest, of the harness or of a node that was left alone
	threads float64       // that wanted to run, on average, for each processor
}

// excuses reports whether that is reason enough to come too late.
func (s strain) excuses() bool { return s.pause > hitch || s.threads > crush }

func (s strain) String() string {
	return fmt.Sprintf("a process got no processor for %v at most, and %.1f threads wanted to run on each", shown(s.pause), s.threads)
}

// pulse looks by how much later than wanted this process comes to run, and how many
// threads want to.
type pulse struct {
	stop func()
	done chan struct{}

	// Of the goroutine that looks, until done is closed.
	longest         time.Duration
	threads, looked int
}

// newPulse looks until it is asked.
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

// runnable is how many threads of the machine run or want to, but for the one that
// asks; 0 if that is not known.
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

// end looks no more.
func (p *pulse) end() strain {
	p.stop()
	<-p.done
	return strain{p.longest, float64(p.threads) / float64(max(p.looked, 1)*runtime.NumCPU())}
}

// strained is how much the machine was short of processors during the play.
func (s *stage) strained() strain {
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
