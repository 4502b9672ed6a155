package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// fakeNode is a host with answers that the test sets.
type fakeNode struct {
	id     protocol.NodeID
	events []Event

	mu        sync.Mutex
	state     driver.State
	changed   chan struct{} // closed at a change
	closed    bool
	others    map[protocol.NodeID]*fakeNode // for Resign
	resigned  []fence.Token
	appointed []string // of its transfers
	paused    bool
	pausedBy  string
	watchers  int
	vague     bool          // a change of membership has no end that is known
	took      chan struct{} // a watcher took a state; has room for one
}

func newFakeNode(id string) *fakeNode {
	return &fakeNode{id: protocol.NodeID(id), changed: make(chan struct{}), took: make(chan struct{}, 1)}
}

func (f *fakeNode) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeNode) sees(s driver.State) { f.change(func() { f.state = s }) }

func (f *fakeNode) Status() NodeStatus {
	return NodeStatus{ID: string(f.id), Election: "nightly", Role: "follower", LeaseLeft: 1500 * time.Millisecond}
}

func (f *fakeNode) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		f.mu.Lock()
		f.watchers++
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.watchers--
		}()
		for {
			f.mu.Lock()
			s, changed, closed := f.state, f.changed, f.closed
			f.mu.Unlock()
			if closed || !yield(s, nil) {
				return
			}
			select {
			case f.took <- struct{}{}:
			default:
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (f *fakeNode) Resign(ctx context.Context, token fence.Token) error {
	f.mu.Lock()
	leader := f.state.Leader
	f.mu.Unlock()
	if leader == nil {
		return driver.ErrNoLeader
	}
	if leader.ID == string(f.id) {
		return f.resign(ctx, token)
	}
	return f.others[protocol.NodeID(leader.ID)].resign(ctx, token)
}

func (f *fakeNode) resign(_ context.Context, token fence.Token) error {
	f.mu.Lock()
	leader := f.state.Leader
	f.mu.Unlock()
	switch {
	case leader == nil || leader.ID != string(f.id):
		return fmt.Errorf("%w: %s does not lead", driver.ErrNoLeader, f.id)
	case token != 0 && token != leader.Token:
		return fmt.Errorf("%w: token %v leads", driver.ErrSuperseded, leader.Token)
	}
	f.change(func() { f.resigned = append(f.resigned, token); f.state = driver.State{} })
	return nil
}

func (f *fakeNode) reconfigure(_ context.Context, q memberRequest, step func(string)) (*MemberChange, error) {
	f.mu.Lock()
	leader := f.state.Leader
	f.mu.Unlock()
	switch {
	case leader == nil || leader.ID != string(f.id) && q.Forwarded:
		return nil, driver.ErrNoLeader
	case leader.ID != string(f.id):
		q.Forwarded = true
		return f.others[protocol.NodeID(leader.ID)].reconfigure(context.Background(), q, step)
	case q.ID == f.id:
		return nil, refusedf("%s leads", f.id)
	case f.vague:
		return nil, fmt.Errorf("%w: half-way", driver.ErrUnknownOutcome)
	}
	step(string(q.Op) + " " + string(q.ID))
	return &MemberChange{Changed: true, Steps: []string{string(q.Op) + " " + string(q.ID)}, Membership: MembershipStatus{Term: 3, Count: 2}}, nil
}

// In the membership of a fake are the voters n1 to n3, and the observer o1.
func (*fakeNode) standing(id protocol.NodeID) (votes, listed bool) {
	votes = id == "n1" || id == "n2" || id == "n3"
	return votes, votes || id == "o1"
}

func (f *fakeNode) history() ([]Event, error) {
	if f.events == nil {
		return nil, errors.New("the disk is gone")
	}
	return f.events, nil
}

func ledBy(id string, token fence.Token) driver.State {
	return driver.State{Leader: &driver.Leader{ID: id, Token: token, Metadata: map[string]string{"address": id + ":80"}, Since: time.Unix(int64(token), 0).UTC()}}
}

var operator = link.Caller{Role: certs.Administer, Addr: "192.0.2.1:1"}

// asks returns all responses to one request.
func asks(t *testing.T, h host, q *wire.Request) []*wire.Response {
	t.Helper()
	var all []*wire.Response
	answer(t.Context(), h, slog.New(slog.DiscardHandler), operator, q, func(r *wire.Response) error {
		if _, err := wire.Append(nil, &wire.Frame{Response: r}); err != nil {
			t.Errorf("the response cannot be sent: %v", err)
		}
		all = append(all, r)
		return nil
	})
	for i, r := range all {
		if r.Call != q.Call || r.More != (i < len(all)-1) {
			t.Errorf("response %d of %d: call %d, more %v", i+1, len(all), r.Call, r.More)
		}
	}
	return all
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	n := newFakeNode("n1")
	n.sees(ledBy("n1", 5))
	for _, c := range []struct {
		verb  string
		token uint64
		body  string
		code  string
		want  string
	}{
		{verb: "ping", want: "{}"},
		{verb: "ping", body: "whatever", want: "{}"},
		{verb: "status", want: `"id":"n1"`},
		{verb: "status", body: `{"a field of a newer client":1}`, want: `"lease_left_ns":1500000000`},
		{verb: "status", body: `{`, code: "body", want: "the body of status: unexpected end of JSON input; want a JSON object"},
		{verb: "watch", body: `[]`, code: "body", want: "want a JSON object"},
		{verb: "history", body: `7`, code: "body", want: "want a JSON object"},
		{verb: "history", code: "failed", want: "the disk is gone"},
		{verb: "resign", body: `{"forwarded":"yes"}`, code: "body", want: "want a JSON object"},
		{verb: "resign", token: 1 << 48, code: "body", want: "is no token"},
		{verb: "resign", token: 4, code: "superseded", want: "token 5 leads"},
		{verb: "elect-me", code: "verb", want: `knows no "elect-me"; want status, watch, resign, transfer, pause, resume, member, history or ping`},
		{verb: "transfer", body: `{"to":7}`, code: "body", want: "want a JSON object"},
		{verb: "transfer", body: `{"to":"n 2"}`, code: "body", want: "the successor: node id"},
		{verb: "transfer", token: 1 << 48, body: `{"to":"n2"}`, code: "body", want: "is no token"},
		{verb: "transfer", token: 4, body: `{"to":"n2"}`, code: "superseded", want: "token 5 leads"},
		{verb: "transfer", token: 5, body: `{"to":"n1"}`, code: "ineligible", want: "n1 leads already"},
		{verb: "pause", body: `[]`, code: "body", want: "want a JSON object"},
		{verb: "pause", want: "{}"},
		{verb: "resume", body: `{}`, want: "{}"},
		{verb: "status", body: strings.Repeat(" ", maxQuestion+1), code: "body", want: "4097 bytes; want at most 4096"},
		{verb: "resign", token: 5, want: "{}"},
		{verb: "resign", code: "no-leader", want: "no leader"},
		{verb: "resign", body: `{"forwarded":true}`, code: "no-leader", want: "n1 does not lead"},
	} {
		all := asks(t, n, &wire.Request{Call: 7, Verb: c.verb, Token: c.token, Body: []byte(c.body)})
		if len(all) != 1 {
			t.Errorf("%s %.40s: %d responses", c.verb, c.body, len(all))
			continue
		}
		if r := all[0]; r.Code != c.code || !strings.Contains(string(r.Body)+r.Error, c.want) || (r.Code == "") != (r.Body != nil) {
			t.Errorf("%s %.40s: %q %q %s; want %q with %q", c.verb, c.body, r.Code, r.Error, r.Body, c.code, c.want)
		}
	}
	if !reflect.DeepEqual(n.resigned, []fence.Token{5}) {
		t.Errorf("resigned: %v", n.resigned)
	}
}

// Errors that callers act on keep their identity over the connection.
func TestRefusalsArrive(t *testing.T) {
	t.Parallel()
	for _, r := range codes {
		var got *wire.Response
		answer(t.Context(), failing{newFakeNode("n1"), fmt.Errorf("%w: because", r.is)}, slog.New(slog.DiscardHandler), operator, &wire.Request{Verb: "resign"}, func(r *wire.Response) error {
			got = r
			return nil
		})
		err := understood(fmt.Errorf("call: %w", &link.CallError{Code: got.Code, Says: got.Error}))
		if !errors.Is(err, r.is) || err.Error() != r.is.Error()+": because" {
			t.Errorf("%v arrives as %v", r.is, err)
		}
	}
	other := &link.CallError{Code: "to come", Says: "x"}
	if err := understood(other); err != error(other) {
		t.Errorf("an unknown code: %v", err)
	}
}

type failing struct {
	*fakeNode
	err error
}

func (f failing) Resign(context.Context, fence.Token) error { return f.err }

// A leader that does not answer does not block the caller.
func TestResignIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		all := asks(t, hanging{newFakeNode("n1")}, &wire.Request{Verb: "resign"})
		if len(all) != 1 || all[0].Code != "unreachable" || time.Since(start) != resignLimit {
			t.Errorf("after %v: %+v", time.Since(start), all)
		}
	})
}

type hanging struct{ *fakeNode }

func (hanging) Resign(ctx context.Context, _ fence.Token) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A history that is larger than a frame comes in pieces that are not.
func TestHistoryInPieces(t *testing.T) {
	t.Parallel()
	n := newFakeNode("n1")
	n.events = []Event{}
	if all := asks(t, n, &wire.Request{Verb: "history"}); len(all) != 1 || string(all[0].Body) != "[]" {
		t.Errorf("an empty history: %+v", all)
	}
	for i := range 1000 {
		n.events = append(n.events, Event{At: time.Unix(int64(i), 0).UTC(), Event: "lost", Leader: "n1", Token: fence.Token(i + 1), Reason: strings.Repeat("x", i%3000)})
	}
	var got []Event
	all := asks(t, n, &wire.Request{Verb: "history"})
	for _, r := range all {
		if r.Code != "" || len(r.Body) > 2*maxPiece {
			t.Fatalf("%d bytes, %q", len(r.Body), r.Error)
		}
		var piece []Event
		if err := json.Unmarshal(r.Body, &piece); err != nil {
			t.Fatal(err)
		}
		got = append(got, piece...)
	}
	if !reflect.DeepEqual(got, n.events) {
		t.Errorf("%d events in %d pieces; want %d", len(got), len(all), len(n.events))
	}
}

// FuzzAnswer: whatever is asked gets exactly one last response, which can be
// sent.
func FuzzAnswer(f *testing.F) {
	for _, verb := range []string{verbStatus, verbWatch, verbResign, verbTransfer, verbPause, verbResume, verbHistory, verbPing, "x"} {
		f.Add(verb, uint64(0), []byte(nil))
		f.Add(verb, uint64(1<<63-1), []byte(`{"forwarded":true}`))
		f.Add(verb, uint64(5), []byte(`[`))
		f.Add(verb, uint64(5), []byte(`{"to":"n2"}`))
	}
	f.Fuzz(func(t *testing.T, verb string, token uint64, body []byte) {
		n := newFakeNode("n1")
		n.sees(ledBy("n1", 5))
		n.closed = true // so that a watch ends
		if all := asks(t, n, &wire.Request{Call: 7, Verb: verb, Token: token, Body: body}); len(all) != 1 {
			t.Errorf("%d responses", len(all))
		}
	})
}

// watched collects what a watcher is shown.
type watched struct {
	mu  sync.Mutex
	all []string
}

func (w *watched) add(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, s)
}

func (w *watched) take() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, w.all = w.all, nil
	return all
}

// shown is a response to watch in a few characters.
func shown(r *wire.Response) string {
	var s sighting
	if err := json.Unmarshal(r.Body, &s); r.Body != nil && err != nil {
		return err.Error()
	}
	text := r.Code
	if s.Leader != nil {
		text += s.Leader.ID + "/" + s.Leader.Token.String()
	}
	if s.Stale {
		text += " stale"
	}
	return strings.TrimSpace(text + " " + s.Cause)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode("n1")
		n.sees(driver.State{Cause: errors.New("not founded yet")})
		var seen watched
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			answer(t.Context(), n, slog.New(slog.DiscardHandler), operator, &wire.Request{Verb: "watch"}, func(r *wire.Response) error {
				seen.add(shown(r))
				return nil
			})
		}()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := seen.take(); !reflect.DeepEqual(got, want) {
				t.Errorf("saw %q; want %q", got, want)
			}
		}
		expect("not founded yet")
		n.sees(ledBy("n1", 5))
		expect("n1/5")
		s := ledBy("n1", 5)
		s.Stale, s.Cause = true, errors.New("cut off")
		n.sees(s)
		expect("n1/5 stale cut off")
		time.Sleep(2*beat + beat/2) // it repeats itself: silence means that it is frozen
		expect("n1/5 stale cut off", "n1/5 stale cut off")
		n.sees(ledBy("n2", 6))
		expect("n2/6")
		time.Sleep(beat - 1) // counted from what was said last
		expect()
		time.Sleep(time.Nanosecond)
		expect("n2/6")
		n.change(func() { n.closed = true })
		expect("closed")
		<-ended
	})
}

// A client that does not read is shown the latest when it reads again, and does
// not keep anything once it has gone.
func TestWatchOfSlowAndGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode("n1")
		var seen watched
		reads := make(chan struct{})
		go answer(t.Context(), n, slog.New(slog.DiscardHandler), operator, &wire.Request{Verb: "watch"}, func(r *wire.Response) error {
			if _, ok := <-reads; !ok {
				return errors.New("connection reset")
			}
			seen.add(shown(r))
			return nil
		})
		for i := range 100 {
			n.sees(ledBy("n1", fence.Token(i+1)))
			synctest.Wait()
		}
		for range 4 {
			reads <- struct{}{}
			synctest.Wait()
		}
		all := seen.take()
		if len(all) != 4 || all[3] != "n1/100" {
			t.Errorf("a slow client saw %q; want n1/100 at last", all)
		}
		n.mu.Lock()
		watchers := n.watchers
		n.mu.Unlock()
		if watchers != 1 {
			t.Errorf("%d watchers; want 1", watchers)
		}
		close(reads)
		time.Sleep(2 * beat)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.watchers != 0 {
			t.Error("somebody watches for a client that has gone")
		}
	})
}

// The form of a status in JSON is stable: what is here may grow, and nothing in
// it may change.
func TestStatusInJSON(t *testing.T) {
	t.Parallel()
	s := NodeStatus{
		ID: "n1", Cluster: "elect", Election: "nightly", Program: "v1", Protocol: "quorum", Role: "leader", Founded: true, Term: 5, Incarnation: 2,
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Leader: ledBy("n1", 5).Leader, Stale: true, Cause: "why", Token: 5, Active: true, LeaseLeft: 900 * time.Millisecond, Owes: 8, Observes: true,
		Join: true, Dir: "01000000000000000000000000000000",
		Membership: &MembershipStatus{
			Term: 5, Count: 2, Settled: true, Observers: []ObserverStatus{{ID: "o1", Addr: "127.0.0.1:9"}},
			Voters: []VoterStatus{{ID: "n1", Dir: "01000000000000000000000000000000", Addr: "127.0.0.1:1", Lag: 3, Idle: true, Priority: -1, Position: "16/0", Behind: true, Held: "5.1"}},
		},
		Certificate: &CertificateStatus{Expires: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), AuthorityExpires: time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC), Authority: "01ab", Warnings: []string{"soon"}},
		Paused:      true, Priority: 7, PositionPolicy: "prefer", Position: "16/1",
		Voters: []string{"n1", "n2"}, Observers: []string{"o1"},
		Peers: []PeerStatus{{
			ID: "n2", Addr: "127.0.0.1:1", Connected: true, RTT: 3 * time.Millisecond, LastContact: 4 * time.Millisecond, Program: "v1", Speaks: 1,
			Sent: 1, Received: 2, Dropped: 3, Retransmits: 4, Error: "none",
		}},
		Counters: Counters{Elections: 1, Saves: 2, SaveSlowest: 3, ClockJumps: 4, Pauses: 5, LongestPause: 6, FlightGaps: 7},
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"n1","cluster":"elect","election":"nightly","program":"v1","protocol":"quorum","role":"leader","founded":true,"join":true,"observes":true,"dir":"01000000000000000000000000000000",` +
		`"membership":{"term":5,"count":2,"settled":true,"voters":[{"id":"n1","dir":"01000000000000000000000000000000","addr":"127.0.0.1:1","lag_ns":3,"idle":true,"priority":-1,"position":"16/0","behind":true,"held":"5.1"}],"observers":[{"id":"o1","addr":"127.0.0.1:9"}]},` +
		`"term":5,"incarnation":2,` +
		`"started":"2026-01-02T03:04:05Z","leader":{"id":"n1","token":"5","metadata":{"address":"n1:80"},"since":"1970-01-01T00:00:05Z"},` +
		`"stale":true,"cause":"why","token":"5","active":true,"lease_left_ns":900000000,"owes_ns":8,"paused":true,"priority":7,"position_policy":"prefer","position":"16/1","certificate":{"expires":"2026-01-02T00:00:00Z","authority_expires":"2027-01-02T00:00:00Z","authority":"01ab","warnings":["soon"]},"plan":PLAN,"voters":["n1","n2"],"observers":["o1"],` +
		`"peers":[{"id":"n2","addr":"127.0.0.1:1","connected":true,"rtt_ns":3000000,"last_contact_ns":4000000,"program":"v1","speaks":1,"sent":1,"received":2,"dropped":3,"retransmits":4,"error":"none"}],` +
		`"counters":{"elections":1,"saves":2,"save_slowest_ns":3,"clock_jumps":4,"pauses":5,"longest_pause_ns":6,"flight_gaps":7}}`
	plan, err := json.Marshal(s.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Replace(string(text), `"plan":`+string(plan), `"plan":PLAN`, 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var back NodeStatus
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

func ids3() []Peer {
	var all []Peer
	for i := range 3 {
		all = append(all, Peer{ID: "n" + strconv.Itoa(i+1), Addr: "127.0.0.1:" + strconv.Itoa(i+1)})
	}
	return all
}
