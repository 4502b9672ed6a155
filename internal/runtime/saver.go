package runtime

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Disk keeps the Data of the machine's latest Save. One goroutine at a time calls it.
type Disk interface {
	// Save replaces the kept data, and returns when that is durable. A write that is cut short leaves the old or the new
	// data whole. The caller owns data again afterwards.
	Save(data []byte) error
	// Settle is called when nothing was saved for a while, for work that should delay no election, such as a second
	// copy. It is called again every [Probe], and must write something each time: that is how a participant learns that
	// its disk hangs before a save has to wait for it.
	Settle() error
}

const (
	// Probe is the time from the end of a write to the next call of Settle, if there is nothing to save.
	Probe = 10 * time.Second
	// SlowSync is the longest time that a write takes on a disk that is well.
	SlowSync = time.Second
)

// saver makes saves durable, one at a time, off the path of heartbeats. It skips a save that a later one replaces
// before its turn.
type saver struct {
	disk   Disk
	done   func(number uint64, took time.Duration, err error) // after each save
	failed func(err error)                                    // of Disk.Settle
	idle   time.Duration                                      // after which the disk is settled, see run

	wake   chan struct{} // has room for one
	stop   chan struct{}
	joined sync.WaitGroup

	mu     sync.Mutex
	number uint64 // of data; 0: none is queued
	data   []byte

	// Any goroutine may read these. The times are nanoseconds of the monotonic clock since life. A bad write is one
	// that failed or was slow.
	life  time.Time    // when start was called
	began atomic.Int64 // when the write under way began; 0 if there is none
	ill   atomic.Int64 // when the first of a row of bad writes began; 0 if the last write was good
	ended atomic.Int64 // when the last bad write ended; 0 if there was none
}

// illness returns for how long the disk has been ill: no write has succeeded within SlowSync in that time. If it is
// well lasts is 0, and past is for how long it has been so; [math.MaxInt64] if it was never ill.
func (s *saver) illness() (lasts, past time.Duration) {
	now := s.now()
	since := s.ill.Load()
	if began := s.began.Load(); since == 0 && began != 0 && now-began > int64(SlowSync) {
		since = began
	}
	switch ended := s.ended.Load(); {
	case since != 0:
		return time.Duration(now - since), 0
	case ended != 0:
		return 0, time.Duration(now - ended)
	}
	return 0, math.MaxInt64
}

func (s *saver) now() int64 { return int64(time.Since(s.life)) + 1 } // never 0

// write does one write, and notes whether it was bad.
func (s *saver) write(do func() error) (took time.Duration, err error) {
	began := s.now()
	s.began.Store(began)
	err = do()
	now := s.now()
	if took = time.Duration(now - began); err == nil && took <= SlowSync {
		s.ill.Store(0)
	} else {
		s.ill.CompareAndSwap(0, began)
		s.ended.Store(now)
	}
	s.began.Store(0)
	return took, err
}

// start begins to save.
func (s *saver) start() {
	s.wake, s.stop, s.life = make(chan struct{}, 1), make(chan struct{}), time.Now()
	if s.number != 0 {
		s.wake <- struct{}{}
	}
	s.joined.Go(s.run)
}

// put asks for a save; data is copied.
func (s *saver) put(number uint64, data []byte) {
	s.mu.Lock()
	s.number, s.data = number, append(s.data[:0], data...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close ends after the save under way. It does not begin a queued one: nothing that needs that has left.
func (s *saver) close() {
	close(s.stop)
	s.joined.Wait()
}

func (s *saver) run() {
	var data []byte
	idle := time.NewTimer(Probe) // one that was started again may have nothing to save for long
	if s.disk == nil {
		idle.Stop()
	}
	for {
		select {
		case <-s.stop:
			return
		case <-idle.C:
			// By now no election waits for the disk. An election under way would have to wait for this: on a disk whose syncs
			// take 300 ms, with a promise of 500 ms, a second write a heartbeat after each vote delayed votes so much that
			// elections went on for up to 85 terms.
			known := s.ill.Load() != 0
			if _, err := s.write(s.disk.Settle); err != nil && !known {
				s.failed(err)
			}
			idle.Reset(s.rest())
			continue
		case <-s.wake:
		}
		s.mu.Lock()
		number := s.number
		s.number = 0
		data, s.data = s.data, data[:0]
		s.mu.Unlock()
		if number == 0 {
			continue
		}
		took, err := s.write(func() error { return s.disk.Save(data) })
		s.done(number, took, err)
		if err == nil {
			idle.Reset(s.idle)
		}
	}
}

// rest is the time until the next probe. It is short while the disk is ill, to see soon that it is well.
func (s *saver) rest() time.Duration {
	if s.ill.Load() != 0 {
		return SlowSync
	}
	return Probe
}
