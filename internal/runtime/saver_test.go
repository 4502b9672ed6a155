package runtime

import (
	"errors"
	"reflect"
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
		if want := []string{"one", "three", "mirror", "broken"}; !reflect.DeepEqual(did, want) {
			t.Errorf("it did %q; want %q", did, want)
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
