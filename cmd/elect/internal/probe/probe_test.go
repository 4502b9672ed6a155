package probe

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/store/memory"
)

// patience is how long tests wait for what takes milliseconds.
const patience = 30 * time.Second

// subject is a probe in this process.
type subject struct {
	t       *testing.T
	elector *memory.Elector
	orders  io.WriteCloser
	reports chan Report
}

func newSubject(t *testing.T, store *memory.Store, id string, tokens bool) *subject {
	t.Helper()
	elector, err := store.New("probe", id, memory.Config{Lease: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	guard := &Guard{}
	election, err := elect.New(elector, elect.Config{NonExclusive: tokens, Guardian: guard})
	if err != nil {
		t.Fatal(err)
	}
	in, orders := io.Pipe()
	out, reports := io.Pipe()
	s := &subject{t: t, elector: elector, orders: orders, reports: make(chan Report, 100)}
	ended := make(chan error, 1)
	go func() {
		err := Run(t.Context(), Config{Election: election, Guard: guard, In: in, Out: reports, Tokens: tokens})
		_ = reports.Close()
		ended <- err
	}()
	read := make(chan error, 1)
	go func() { read <- Read(out, func(r Report) { s.reports <- r }) }()
	t.Cleanup(func() {
		_ = orders.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if err := <-read; err != nil {
			t.Errorf("%s: %v", id, err)
		}
		_ = election.Close()
	})
	return s
}

func (s *subject) order(what string) {
	s.t.Helper()
	if _, err := io.WriteString(s.orders, what+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *subject) await(want Event) Report {
	s.t.Helper()
	late := time.After(patience)
	for {
		select {
		case r := <-s.reports:
			if r.PID != os.Getpid() || r.At == 0 {
				s.t.Errorf("a report without process or time: %+v", r)
			}
			if r.Event == want {
				return r
			}
		case <-late:
			s.t.Fatalf("no report %s within %v", want, patience)
		}
	}
}

func TestResign(t *testing.T) {
	store := memory.NewStore(0)
	a := newSubject(t, store, "a", false)
	first := a.await(Active)
	b := newSubject(t, store, "b", false)
	b.await(Standing)
	a.order(Resign)
	ended, next := a.await(Ended), b.await(Active)
	if ended.Token != first.Token || next.Token <= first.Token {
		t.Errorf("tokens %v, %v, %v", first.Token, ended.Token, next.Token)
	}
	if ended.From != first.At || ended.To < ended.From || ended.At < ended.To || next.At < ended.At {
		t.Errorf("out of order: %+v, %+v, %+v", first, ended, next)
	}
}

// TestCutOff has a leader that looks at Check without a pause while its lease
// runs out.
func TestCutOff(t *testing.T) {
	store := memory.NewStore(0)
	a := newSubject(t, store, "a", false)
	a.await(Active)
	b := newSubject(t, store, "b", false)
	b.await(Standing)
	a.order(Watch)
	watching := a.await(Watching)
	a.elector.Cut(true)
	next, ended := b.await(Active), a.await(Ended)
	if ended.To <= watching.At || ended.To >= next.At {
		t.Errorf("believed until %v; it watched from %v on, and another led from %v on", ended.To, watching.At, next.At)
	}
	if ended.Checks < 1000 || ended.Why == "" {
		t.Errorf("%+v: want a look every few microseconds, and why it ended", ended)
	}
	a.order(Rest)
	a.elector.Cut(false)
}

func TestTokens(t *testing.T) {
	a := newSubject(t, memory.NewStore(0), "a", true)
	elected, active := a.await(Elected), a.await(Active)
	if elected.Token == 0 || active.Token != elected.Token || active.At < elected.At {
		t.Errorf("%+v, %+v", elected, active)
	}
}

func TestRead(t *testing.T) {
	for _, text := range []string{"x\n", `{"event":"dancing"}` + "\n", `{"event":1}` + "\n", "\n"} {
		if err := Read(strings.NewReader(text), func(r Report) { t.Errorf("%q was read as %+v", text, r) }); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestStretch(t *testing.T) {
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		checks []error
		want   string
	}{
		"never":      {[]error{lost, lost}, "ended 0-0/0"},
		"once":       {[]error{nil}, "active, ended 1-0/1"},
		"a while":    {[]error{nil, nil, nil, lost}, "active, believed 1-4/3, ended 1-4/3"},
		"not yet":    {[]error{driver.ErrNotExclusive, nil, nil}, "active, ended 3-4/2"},
		"it revives": {[]error{nil, nil, lost, nil, lost}, "active, believed 1-2/2, believed 7-6/1, ended 7-6/1"},
	} {
		var got []string
		s := stretch{tell: func(r Report) {
			text := string(r.Event)
			if r.Event != Active {
				text += " " + clockText(r.From) + "-" + clockText(r.To) + "/" + clockText(clock.Boot(r.Checks))
			}
			got = append(got, text)
		}}
		var now clock.Boot
		for _, err := range c.checks {
			s.saw(now, now+1, err)
			now += 2
		}
		s.end(now)
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s; want %s", name, text, c.want)
		}
	}
}

func clockText(b clock.Boot) string { return string('0' + rune(b)) }
