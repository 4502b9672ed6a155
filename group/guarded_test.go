package group

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/electd/elect/driver"
)

// slowGuardian answers when it is told to.
type slowGuardian struct {
	answers chan error
	done    int
}

func (g *slowGuardian) Lead(driver.Guarded) (func(), error) {
	return func() { g.done++ }, <-g.answers
}

func (g *slowGuardian) InTime() bool { return false }

// TestGuardianIsSlow: a guardian that does not answer for a session holds up no end of the work of another one, and no
// work begins before it has answered.
func TestGuardianIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowGuardian{answers: make(chan error, 1)}
		w := guarded{g: &Group{cfg: Config{Guardian: slow}}}
		before, now := &epoch{}, &epoch{}
		slow.answers <- nil
		if err := w.enter(before); err != nil {
			t.Fatal(err)
		}
		enter := func() chan error {
			entered := make(chan error, 2)
			for range cap(entered) {
				go func() { entered <- w.enter(now) }()
			}
			synctest.Wait()
			return entered
		}
		entered, left := enter(), make(chan struct{})
		go func() {
			w.leave(before)
			close(left)
		}()
		synctest.Wait()
		select {
		case <-left:
		default:
			t.Error("the end of work waits for the guardian of other work")
		}
		if len(entered) > 0 {
			t.Error("work begins before the guardian has answered")
		}
		refused := errors.New("no")
		slow.answers <- refused
		for range cap(entered) {
			if err := <-entered; err != refused {
				t.Errorf("the work begins with %v; want the error of the guardian", err)
			}
		}
		slow.answers <- nil
		for entered := enter(); len(entered) > 0; {
			if err := <-entered; err != nil {
				t.Error(err)
			}
		}
		w.leave(now)
		w.leave(now)
		<-left
		if slow.done != 2 || len(w.all) > 0 {
			t.Errorf("the guardian was told %d times that work has ended, and %d sessions are left; want 2 and none", slow.done, len(w.all))
		}
	})
}
