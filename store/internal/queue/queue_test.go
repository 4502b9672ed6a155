package queue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
)

// win campaigns, and returns how long it took.
func win(t *testing.T, p electtest.Participant) (driver.Mandate, time.Duration) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	return m, time.Since(start)
}

func release(t *testing.T, m driver.Mandate) {
	t.Helper()
	if err := m.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func closed(t *testing.T, p electtest.Participant) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestForeign: an entry of another program keeps its place, and is shown by its text if that can be
// an id. When it goes, the next one leads.
func TestForeign(t *testing.T) {
	for text, id := range map[string]string{"host-7:80": "host-7:80", "two words": "foreign-1", "": "foreign-1", `{"elect":1, "id":"a"}`: "foreign-1"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			other := &line{store: s}
			session, _, err := other.Open(t.Context(), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Enter(t.Context(), session, text); err != nil {
				t.Fatal(err)
			}
			p := open(t, s, 0, "e", "p")
			defer closed(t, p)
			for st, err := range p.Watch(t.Context()) {
				if err != nil || st.Leader == nil || st.Leader.ID != id || st.Leader.Token != 1 {
					t.Errorf("text %q is shown as %+v, %v; want %s with token 1", text, st, err, id)
				}
				break
			}
			m, took := win(t, p)
			if took < 9*time.Second {
				t.Errorf("it leads after %v, while another entry is first for 10 s", took)
			}
			release(t, m)
		})
	}
}

// TestMark: a winner waits for the longest hold where no mark of elect's tells of the tenure before,
// and says so once; after a release it does not wait.
func TestMark(t *testing.T) {
	const hold = 2 * time.Second
	for name, c := range map[string]struct {
		mark  string
		waits bool
		warns bool
	}{
		"none":             {"", true, false},
		"nonsense":         {"nonsense", true, true},
		"another form":     {`{"elect":2,"order":1,"held":false}`, true, true},
		"a field more":     {`{"elect":1,"order":1,"held":false,"priority":1}`, true, true},
		"held and no hold": {`{"elect":1,"order":1,"held":true}`, true, true},
		"two":              {`{"elect":1,"order":1,"held":false}{"elect":1,"order":1,"held":false}`, true, true},
		"held":             {`{"elect":1,"order":1,"held":true,"hold":"1s"}`, true, false},
		"free":             {`{"elect":1,"order":1,"held":false}`, false, false},
		"of a later one":   {`{"elect":1,"order":99,"held":false}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := newStore(), &bytes.Buffer{}
				s.revision, s.mark = 10, c.mark
				e, err := queue.New(&line{store: s}, queue.Config{
					Config:  drive.Config{Name: "e", ID: "web-3:4711", Now: storetest.Now, Logger: slog.New(slog.NewTextHandler(log, nil))},
					Machine: machine.Config{Dialect: machine.Etcd, TTL: 4 * time.Second, Hold: hold, MaxHold: hold}, Assumes: "a test",
				})
				if err != nil {
					t.Fatal(err)
				}
				p := electtest.Participant{Elector: e}
				m, took := win(t, p)
				if waits := took >= hold; waits != c.waits {
					t.Errorf("it leads after %v; want a wait of %v: %t", took, hold, c.waits)
				}
				release(t, m)
				m, took = win(t, p)
				if took >= hold {
					t.Errorf("after a release it waits %v", took)
				}
				release(t, m)
				closed(t, p)
				if n := strings.Count(log.String(), "not one of elect's"); n > 1 || n == 1 != c.warns {
					t.Errorf("it is said %d times that the mark is foreign; want once: %t\n%s", n, c.warns, log)
				}
			})
		})
	}
}

// TestCloseLeaves: a participant that is closed while it waits leaves no entry behind, for which the
// next one would wait as long as a session lasts.
func TestCloseLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		leader, waiting, next := open(t, s, 0, "e", "leader"), open(t, s, 0, "e", "waiting"), open(t, s, 0, "e", "next")
		defer closed(t, leader)
		defer closed(t, next)
		m, _ := win(t, leader)
		stood := make(chan error, 1)
		go func() {
			_, err := waiting.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
			stood <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		closed(t, waiting)
		if err := <-stood; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%v; want ErrClosed", err)
		}
		release(t, m)
		n, took := win(t, next)
		if took > time.Second {
			t.Errorf("the next one leads after %v; want at once", took)
		}
		release(t, n)
	})
}

// TestRefused: what the machine cannot do, or the store does not grant, is wrong for good.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{store: newStore()}
		cfg := queue.Config{Config: drive.Config{Name: "e", ID: "p", Now: storetest.Now}, Machine: machine.Config{Dialect: machine.Etcd, TTL: time.Second}}
		if _, err := queue.New(l, cfg); err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "raises silently") {
			t.Errorf("%v; want a permanent error", err)
		}
		cfg.Machine.TTL = 4 * time.Second
		e, err := queue.New(raises{l}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, electtest.Participant{Elector: e})
		if _, err := e.Campaign(t.Context(), driver.Candidacy{}); err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "was granted 16s") {
			t.Errorf("%v; want a permanent error", err)
		}
	})
}

// raises is a store that grants more than it was asked for.
type raises struct{ *line }

func (r raises) Open(ctx context.Context, ttl time.Duration) (uint64, time.Duration, error) {
	id, granted, err := r.line.Open(ctx, 2*ttl)
	return id, granted * 2, err
}

var _ driver.Elector = (*queue.Elector)(nil)
var _ protocol.Machine = (*machine.Machine)(nil)

// TestMeasured: the requests of a leader are counted, keep-alives and all, and each of them is done.
func TestMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, newStore(), 0, "e", "p")
		defer closed(t, p)
		m, _ := win(t, p)
		time.Sleep(10 * time.Second)
		release(t, m)
		counts := map[string]uint64{}
		for _, r := range p.Elector.(driver.Measurer).Measure().Requests {
			if counts[r.Op] = r.Count; r.Result != "done" || r.Sum <= 0 {
				t.Errorf("%+v; want requests that were done, and took their time", r)
			}
		}
		for op, least := range map[string]uint64{"open-session": 1, "enter": 1, "list": 1, "mark": 1, "leave": 1, "keep-alive": 3} {
			if counts[op] < least {
				t.Errorf("%d times %s; want %d or more in %v", counts[op], op, least, counts)
			}
		}
	})
}
