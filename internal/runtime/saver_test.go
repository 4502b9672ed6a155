package runtime

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// diskOf is a Disk of two functions.
type diskOf struct {
	save   func([]byte) error
	settle func() error
}

func (d diskOf) Save(data []byte) error { return d.save(data) }
func (d diskOf) Settle() error          { return d.settle() }

// TestSaver: saves that were replaced before their turn are skipped, failures
// are told, and the disk is settled when nothing else is to be done.
func TestSaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		var told []uint64
		broken := errors.New("broken")
		s := &saver{
			idle: 100 * time.Millisecond,
			disk: diskOf{
				func(data []byte) error { <-time.After(time.Second); did = append(did, string(data)); return nil },
				func() error { did = append(did, "mirror"); return broken },
			},
			failed: func(err error) { did = append(did, err.Error()) },
			done: func(number uint64, took time.Duration, err error) {
				if err == nil && took != time.Second {
					t.Errorf("save %d took %v", number, took)
				}
				told = append(told, number)
			},
		}
		s.start()
		s.put(1, []byte("one"))
		synctest.Wait()
		s.put(2, []byte("two"))
		s.put(3, []byte("three"))
		<-time.After(10 * time.Second)
		synctest.Wait()
		if want := []string{"one", "three", "mirror", "broken"}; len(did) < 5 || !reflect.DeepEqual(did[:4], want) {
			t.Errorf("it did %q; want %q, and then to settle again", did, want)
		}
		if want := []uint64{1, 3}; !reflect.DeepEqual(told, want) {
			t.Errorf("it told of %v; want %v", told, want)
		}
		// Close lets the save that is under way end, and begins no other.
		s.put(4, []byte("four"))
		synctest.Wait()
		s.put(5, []byte("five"))
		s.close()
		if last := told[len(told)-1]; last < 4 {
			t.Errorf("the last save that was told of is %d", last)
		}
	})
}

// TestIllness: a disk is ill while no write succeeds soon, whether writes fail, are slow or hang, and that is noticed
// though nothing is saved.
func TestIllness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes atomic.Int64
		var fails atomic.Bool
		var writes atomic.Int64
		settle := func() error {
			writes.Add(1)
			if <-time.After(time.Duration(takes.Load())); fails.Load() {
				return errors.New("broken")
			}
			return nil
		}
		s := &saver{idle: time.Second, disk: diskOf{func([]byte) error { return settle() }, settle}, failed: func(error) {}, done: func(uint64, time.Duration, error) {}}
		s.start()
		s.put(1, []byte("one"))
		for _, c := range []struct {
			name  string
			takes time.Duration
			fails bool
			ill   bool
		}{
			{"well", time.Second, false, false},
			{"slow", 2 * time.Second, false, true},
			{"well again", 0, false, false},
			{"failing", 0, true, true},
			{"mended", 0, false, false},
			{"hanging", time.Minute, false, true},
		} {
			takes.Store(int64(c.takes))
			fails.Store(c.fails)
			<-time.After(30 * time.Second)
			lasts, past := s.illness()
			if ill := lasts > 0; ill != c.ill || ill && (lasts < 30*time.Second-Probe-2*time.Second || lasts > 30*time.Second || past > 0) {
				t.Errorf("%s: ill for %v, well for %v", c.name, lasts, past)
			}
			if c.name == "well" && writes.Load() != 4 { // of the save, its second copy, and two probes
				t.Errorf("%d writes in 30 s; want 4", writes.Load())
			}
			if !c.ill && c.name != "well" && (past < 30*time.Second-3*time.Second || past > 31*time.Second) {
				t.Errorf("%s: well for %v", c.name, past)
			}
		}
		s.close()
	})
}
