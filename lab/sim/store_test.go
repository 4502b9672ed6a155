package sim

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// heard is what a participant was told, and when.
type heard struct {
	at     Time
	answer protocol.Answer
	lost   bool // its connection ended
}

// receiver is a machine that records its inputs.
type receiver struct {
	d *storeTest
	i int
}

func (m *receiver) Step(in *protocol.Input, _ *protocol.Effects) {
	switch in.Kind {
	case protocol.Replied:
		a := in.Answer
		a.Entries = append([]protocol.Entry(nil), a.Entries...)
		m.d.told[m.i] = append(m.d.told[m.i], heard{at: m.d.w.Now(), answer: a})
	case protocol.PeerClosed:
		m.d.told[m.i] = append(m.d.told[m.i], heard{at: m.d.w.Now(), lost: true})
	}
}
func (m *receiver) NextFire() protocol.Instant    { return protocol.Never }
func (m *receiver) View() protocol.View           { return protocol.View{Role: protocol.Follower} }
func (m *receiver) AppendState(dst []byte) []byte { return dst }
func (m *receiver) LoadState([]byte) error        { return nil }

// storeTest is a world with a store and recording machines, whose asks the test sends.
type storeTest struct {
	t     *testing.T
	w     *World
	kind  StoreKind
	told  [][]heard
	asked [][]protocol.Op
}

const quickTrip = time.Millisecond

func newStoreTest(t *testing.T, kind StoreKind, noise StoreNoise, ops ...Op) *storeTest {
	t.Helper()
	return seedDesk(t, kind, 1, noise, ops...)
}

func seedDesk(t *testing.T, kind StoreKind, seed uint64, noise StoreNoise, ops ...Op) *storeTest {
	t.Helper()
	return deskOf(t, 3, kind, seed, noise, ops...)
}

func deskOf(t *testing.T, nodes int, kind StoreKind, seed uint64, noise StoreNoise, ops ...Op) *storeTest {
	t.Helper()
	d := &storeTest{t: t, kind: kind, told: make([][]heard, nodes), asked: make([][]protocol.Op, nodes)}
	if noise.Delay == 0 {
		noise.Delay = quickTrip
	}
	p := &Protocol{
		Name: "receiver", Store: kind,
		New: func(p Participant) (protocol.Machine, error) { return &receiver{d, p.Index}, nil },
	}
	w, err := New(p, &Schedule{
		Format: 1, Protocol: p.Name, Seed: seed, Nodes: nodes, Faults: 10 * time.Minute,
		Links: LinkNoise{Delay: quickTrip}, Disks: DiskNoise{Sync: quickTrip}, Store: noise,
		Work: Work{Every: time.Second}, Ops: ops,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.w = w
	d.until(time.Millisecond)
	return d
}

func (d *storeTest) store() *store { return d.w.store.(*store) }

// until runs all events before that time.
func (d *storeTest) until(at time.Duration) {
	d.t.Helper()
	for len(d.w.agenda) > 0 && d.w.agenda[0].at <= Time(at) {
		if !d.w.Step() {
			break
		}
	}
	if d.w.Now() > Time(at) {
		d.t.Fatalf("it is %v already, after %v", time.Duration(d.w.Now()), at)
	}
	d.w.now = Time(at)
}

func (d *storeTest) wait(by time.Duration) { d.t.Helper(); d.until(time.Duration(d.w.Now()) + by) }

// ask sends an ask of participant i+1 and returns its number.
func (d *storeTest) ask(i int, a protocol.Ask) uint64 {
	d.asked[i] = append(d.asked[i], a.Op)
	a.Number = uint64(len(d.asked[i]))
	d.w.store.ask(d.w, d.w.nodes[i], &a)
	return a.Number
}

// heard is all that participant i+1 received for that ask.
func (d *storeTest) heard(i int, number uint64) (all []heard) {
	for _, h := range d.told[i] {
		if !h.lost && h.answer.Number == number {
			all = append(all, h)
		}
	}
	return all
}

// do sends an ask and waits for the answer.
func (d *storeTest) do(i int, a protocol.Ask) protocol.Answer {
	d.t.Helper()
	number := d.ask(i, a)
	for range 10_000 {
		if all := d.heard(i, number); len(all) > 0 {
			return all[0].answer
		}
		d.wait(time.Millisecond)
	}
	d.t.Fatalf("no answer to %v", a.Op)
	return protocol.Answer{}
}

// want is do with an expected status.
func (d *storeTest) want(i int, s protocol.Status, a protocol.Ask) protocol.Answer {
	d.t.Helper()
	got := d.do(i, a)
	if got.Status != s {
		d.t.Fatalf("n%d at %v: %v: %v, want %v", i+1, time.Duration(d.w.Now()), a.Op, got.Status, s)
	}
	return got
}

// statuses are those of all that was told about an ask.
func (d *storeTest) statuses(i int, number uint64) (all []protocol.Status) {
	for _, h := range d.heard(i, number) {
		all = append(all, h.answer.Status)
	}
	return all
}

func (d *storeTest) wantStatuses(i int, number uint64, want ...protocol.Status) {
	d.t.Helper()
	if got := d.statuses(i, number); !reflect.DeepEqual(got, want) {
		d.t.Errorf("n%d was told %v about ask %d, want %v", i+1, got, number, want)
	}
}

func trueTime(d time.Duration) Time { return Time(d) }

const (
	sDone     = protocol.StatusDone
	sConflict = protocol.StatusConflict
	sUnknown  = protocol.StatusUnknown
	sRefused  = protocol.StatusRefused
	sGone     = protocol.StatusGone
	sEvent    = protocol.StatusEvent
	sClosed   = protocol.StatusClosed
)

var storeKinds = []StoreKind{StoreRegister, StoreEtcd, StoreZooKeeper}

// chatter makes all participants send asks for a while, and restarts n1 from time to time.
func storeChatter(d *storeTest) {
	r := d.w.stream("chatter")
	sessions := make([]uint64, len(d.told))
	entries := make([]protocol.Entry, len(d.told))
	for k := range 400 {
		i := int(r.Uint64() % uint64(len(d.told)))
		a := protocol.Ask{Session: sessions[i], Entry: entries[i], TTL: 3 * time.Second, Nonce: protocol.Nonce{1, uint64(k)}}
		a.Record = protocol.Record{Holder: "x", Attempt: uint64(k)}
		ops := []protocol.Op{protocol.Read, protocol.Write, protocol.Watch, protocol.Delete}
		if d.kind != StoreRegister {
			ops = []protocol.Op{protocol.List, protocol.Enter, protocol.KeepAlive, protocol.WatchEntry, protocol.Verify, protocol.Touch, protocol.Mark, protocol.Leave, protocol.Sync, protocol.CloseSession, protocol.OpenSession}
		}
		if a.Op = ops[r.Uint64()%uint64(len(ops))]; a.Op == protocol.Write || a.Op == protocol.Delete {
			if g, ok := d.store().server.(*register); ok {
				a.Version = g.now().version
			}
		}
		if sessions[i] == 0 && d.kind != StoreRegister {
			a.Op = protocol.OpenSession
		}
		number := d.ask(i, a)
		d.wait(r.Exp(50 * time.Millisecond))
		for _, h := range d.heard(i, number) {
			if h.answer.Status == sDone && a.Op == protocol.OpenSession {
				sessions[i] = h.answer.Session
			}
			if h.answer.Status == sDone && a.Op == protocol.Enter {
				entries[i] = h.answer.Entry
			}
		}
	}
}

var loudStore = StoreNoise{
	Delay: time.Millisecond, Jitter: 10 * time.Millisecond, Tail: 0.05, Timeout: 200 * time.Millisecond,
	Unknown: 0.1, LostAsk: 0.1, LateAsk: 0.2, Repeat: 0.1, StaleRead: 0.2, WatchLoss: 0.1, WatchTwice: 0.1, WatchClose: 0.1, Throttle: 0.1, Rate: 30_000,
}

func storeTroubles() []Op {
	return []Op{
		{At: trueTime(2 * time.Second), Kind: OpStoreDown, Node: "n1", For: 2 * time.Second},
		{At: trueTime(3 * time.Second), Kind: OpStoreDown, For: 2 * time.Second},
		{At: trueTime(6 * time.Second), Kind: OpStoreElect},
		{At: trueTime(8 * time.Second), Kind: OpForeign, Node: "n2"},
		{At: trueTime(9 * time.Second), Kind: OpExpireEarly, Node: "n3"},
		{At: trueTime(10 * time.Second), Kind: OpStaleRead, For: 3 * time.Second, By: time.Second},
		{At: trueTime(11 * time.Second), Kind: OpFailover, Count: 2},
		{At: trueTime(12 * time.Second), Kind: OpKill, Node: "n2", For: time.Second},
		{At: trueTime(13 * time.Second), Kind: OpExpireLate, For: 3 * time.Second, By: time.Second},
		{At: trueTime(14 * time.Second), Kind: OpStoreSlow, For: time.Second, By: 100 * time.Millisecond},
		{At: trueTime(15 * time.Second), Kind: OpWatchClose},
	}
}

// A store's run depends on its seed alone.
func TestStoreRepeats(t *testing.T) {
	for _, kind := range storeKinds {
		t.Run(string(kind), func(t *testing.T) {
			a, b, c := seedDesk(t, kind, 7, loudStore, storeTroubles()...), seedDesk(t, kind, 7, loudStore, storeTroubles()...), seedDesk(t, kind, 8, loudStore, storeTroubles()...)
			storeChatter(a)
			storeChatter(b)
			storeChatter(c)
			if !reflect.DeepEqual(a.told, b.told) || !bytes.Equal(a.w.store.appendState(nil), b.w.store.appendState(nil)) {
				t.Error("two runs of one seed differ")
			}
			if reflect.DeepEqual(a.told, c.told) {
				t.Error("two seeds gave one run")
			}
		})
	}
}

// A clone runs independently, and as the original would have.
func TestStoreClone(t *testing.T) {
	for _, kind := range storeKinds {
		t.Run(string(kind), func(t *testing.T) {
			d := seedDesk(t, kind, 3, loudStore, storeTroubles()...)
			storeChatter(d)
			before := d.w.store.appendState(nil)
			twin := d.w.store.clone()
			if !bytes.Equal(before, twin.appendState(nil)) {
				t.Fatal("a clone is another store")
			}
			storeChatter(d)
			if bytes.Equal(before, d.w.store.appendState(nil)) {
				t.Fatal("nothing happened")
			}
			if !bytes.Equal(before, twin.appendState(nil)) {
				t.Error("a clone changed with the original")
			}
		})
	}
}

// Each ask but a watch is answered once, and a watch's answers end with its end, whatever happens.
func TestStoreAnswersOnce(t *testing.T) {
	for _, kind := range storeKinds {
		t.Run(string(kind), func(t *testing.T) {
			for seed := range uint64(20) {
				ops := slices.DeleteFunc(storeTroubles(), func(o Op) bool { return o.Kind == OpKill })
				d := seedDesk(t, kind, seed, loudStore, ops...)
				storeChatter(d)
				d.wait(20 * time.Second)
				for i := range d.told {
					for k, op := range d.asked[i] {
						number := uint64(k + 1)
						all := d.statuses(i, number)
						if !watches(op) {
							if len(all) != 1 {
								t.Fatalf("seed %d: %v, ask %d of n%d, was answered %v", seed, op, number, i+1, all)
							}
							continue
						}
						if end := slices.Index(all, sClosed); end >= 0 && end != len(all)-1 {
							t.Fatalf("seed %d: a watch of n%d went on after its end: %v", seed, i+1, all)
						}
					}
				}
				if n := len(d.store().parcels.all) - len(d.store().parcels.free); n > 0 {
					t.Fatalf("seed %d: %d parcels are under way, and nothing was asked", seed, n)
				}
			}
		})
	}
}

// storeWorld is a world in which nothing happens by itself.
func storeWorld(b testing.TB, kind StoreKind) *World {
	p := &Protocol{
		Name: "deaf", Store: kind,
		New: func(Participant) (protocol.Machine, error) { return deafMachine{}, nil },
	}
	w, err := New(p, &Schedule{
		Format: 1, Protocol: p.Name, Seed: 1, Nodes: 1, Faults: 8000 * time.Hour,
		Links: LinkNoise{Delay: quickTrip}, Disks: DiskNoise{Sync: quickTrip}, Store: StoreNoise{Delay: quickTrip},
		Ops: []Op{},
	})
	if err != nil {
		b.Fatal(err)
	}
	for len(w.agenda) > 0 && w.agenda[0].at < Time(quickTrip) && w.Step() {
	}
	return w
}

// deaf is a machine that does nothing.
type deafMachine struct{}

func (deafMachine) Step(*protocol.Input, *protocol.Effects) {}
func (deafMachine) NextFire() protocol.Instant              { return protocol.Never }
func (deafMachine) View() protocol.View                     { return protocol.View{Role: protocol.Follower} }
func (deafMachine) AppendState(dst []byte) []byte           { return dst }
func (deafMachine) LoadState([]byte) error                  { return nil }
