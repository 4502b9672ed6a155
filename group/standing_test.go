package group

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/store/memory"
)

// TestMisfitAfterOthers: a refused member stands after a while, too, if the process that refuses it does not coordinate any
// more, and would go on to refuse it.
func TestMisfitAfterOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		w.member("m1", right).run(h)
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 6 })
		m, refused := w.misfit("m2", misfits["another group"].change)
		w.until("a refusal", 10*time.Second, func() bool { return len(refused) > 0 })
		w.all[0].place.Cut(true)
		w.until("m2 to coordinate", 10*time.Second, func() bool { return m.coordinated() == 1 })
	})
}

// TestOlderVersion: a coordinator of version 1 of the protocol, which shows no cover, is named, and followed when it has
// not led for a cover.
func TestOlderVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.net.listen("old")
		defer l.Close()
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer nc.Close()
					if _, err := wire.NewReader(nc).Next(); err == nil {
						_ = wire.Write(nc, &wire.Packet{Welcome: &wire.Welcome{Version: 1}})
					}
				}()
			}
		}()
		place, err := w.store.New("group", "old", memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		old, err := elect.New(place, elect.Config{Metadata: map[string]string{metadataKey: l.Addr().String() + " 5f"}})
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			_ = old.Lead(ctx, func(ctx context.Context, _ *elect.Term) error {
				<-ctx.Done()
				return nil
			})
		})
		<-time.After(time.Second)
		m, refused := w.misfit("m2", func(*Config) {})
		select {
		case err := <-refused:
			if !strings.Contains(err.Error(), "speaks version 1 of the protocol") {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it is not refused; want a line that names the version")
		}
		<-time.After(time.Minute)
		stop()
		done.Wait()
		<-time.After(2900 * time.Millisecond)
		if m.coordinated() > 0 {
			t.Error("it coordinates before its cover is over")
		}
		w.until("it to coordinate", 2*time.Second, func() bool { return m.coordinated() == 1 })
	})
}

// TestShownWait: a coordinator that waits for the longer cover of the one before it says so.
func TestShownWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		long := func(c *Config) { c.Cover = 9 * time.Second }
		a := w.member("m1", long)
		w.until("a coordinator", 10*time.Second, func() bool { return a.coordinated() == 1 })
		b := w.member("m2", nil)
		shown := func(p *part) (d time.Duration) {
			l, err := p.election.Leader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			to, err := targetOf(&l)
			if err != nil {
				t.Fatal(err)
			}
			return to.wait
		}
		<-time.After(20 * time.Second)
		if d := shown(b); d != 0 {
			t.Errorf("the first coordinator shows a wait of %v; want none beside its cover", d)
		}
		a.crash()
		w.until("m2 to coordinate", 10*time.Second, func() bool { return b.coordinated() == 1 })
		if d := shown(b); d != 9*time.Second {
			t.Errorf("the next one shows a wait of %v; want 9s", d)
		}
	})
}
