package runtime

import (
	"sync"
	"time"

	"github.com/electd/elect/driver"
)

// Counters are a Runner's counters since it was made. Their names in JSON are stable.
type Counters struct {
	// Elections counts its victories.
	Elections uint64 `json:"elections"`
	// Saves counts saves, and SaveSlowest is how long the slowest took.
	Saves       uint64        `json:"saves"`
	SaveSlowest time.Duration `json:"save_slowest_ns"`
	// ClockJumps counts suspends and clocks that were set.
	ClockJumps uint64 `json:"clock_jumps"`
	// Pauses counts how often the process ran much later than planned. LongestPause is the longest delay.
	Pauses       uint64        `json:"pauses"`
	LongestPause time.Duration `json:"longest_pause_ns"`
	// Renewals counts how often the end of a proven lease moved on.
	Renewals uint64 `json:"renewals"`
}

// bounds are those by which durations are counted.
var bounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
}

// Durations count how long something took. One goroutine at a time uses them.
type Durations struct {
	count  uint64
	sum    time.Duration
	within [len(bounds)]uint64 // cumulative
}

// Note counts one.
func (d *Durations) Note(took time.Duration) {
	d.count++
	d.sum += took
	for i, bound := range bounds {
		if took <= bound {
			d.within[i]++
		}
	}
}

// Measured returns a copy.
func (d *Durations) Measured() driver.Durations {
	m := driver.Durations{Count: d.count, Sum: d.sum, Within: map[time.Duration]uint64{}}
	for i, bound := range bounds {
		m.Within[bound] = d.within[i]
	}
	return m
}

// counted is the counters. Turns and the saver write them.
type counted struct {
	mu    sync.Mutex
	all   Counters
	saves Durations
	bad   bool // the latest save failed
}

func (c *counted) change(f func(*Counters)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.all)
}

func (c *counted) elected() { c.change(func(a *Counters) { a.Elections++ }) }
func (c *counted) renewed() { c.change(func(a *Counters) { a.Renewals++ }) }
func (c *counted) jumped()  { c.change(func(a *Counters) { a.ClockJumps++ }) }

func (c *counted) paused(late time.Duration) {
	c.change(func(a *Counters) { a.Pauses, a.LongestPause = a.Pauses+1, max(a.LongestPause, late) })
}

func (c *counted) saved(took time.Duration) {
	c.change(func(a *Counters) {
		a.Saves, a.SaveSlowest = a.Saves+1, max(a.SaveSlowest, took)
		c.saves.Note(took)
	})
}

// broke and healed record the state of a disk, and report whether it has changed.
func (c *counted) broke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := !c.bad
	c.bad = true
	return news
}

func (c *counted) healed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.bad
	c.bad = false
	return news
}

func (c *counted) now() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

func (c *counted) disk() driver.Durations {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saves.Measured()
}
