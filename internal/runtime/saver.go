package runtime

import (
	"sync"
	"time"
)

// Disk keeps the Data of the machine's latest Save. One goroutine at a time calls it.
type Disk interface {
	// Save replaces the kept data, and returns when that is durable. A write that is cut short leaves the old or the new
	// data whole. The caller owns data again afterwards.
	Save(data []byte) error
	// Settle is called when nothing was saved for a while, for work that should delay no election, such as a second
	// copy.
	Settle() error
}

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
}

// start begins to save.
func (s *saver) start() {
	s.wake, s.stop = make(chan struct{}, 1), make(chan struct{})
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
	idle := time.NewTimer(s.idle)
	idle.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-idle.C:
			// By now no election waits for the disk. An election under way would have to wait for this: on a disk whose syncs
			// take 300 ms, with a promise of 500 ms, a second write a heartbeat after each vote delayed votes so much that
			// elections went on for up to 85 terms.
			if err := s.disk.Settle(); err != nil {
				s.failed(err)
			}
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
		start := time.Now()
		err := s.disk.Save(data)
		s.done(number, time.Since(start), err)
		if err == nil {
			idle.Reset(s.idle)
		}
	}
}
