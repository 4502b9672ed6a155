package postgres

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
	"github.com/electd/elect/internal/long"
)

// The model is a cluster whose nodes decide by the rules of this package, above servers that do what PostgreSQL does:
// they check timelines by their numbers and the places of forks, and never the entries. Any node may win the election
// at any time, earlier leaders are told late or never, every message may be lost or late, and nodes crash, lose their
// record or their disk.

// row is one entry of a WAL; its position is its index plus one.
type row struct {
	token uint64
	n     int
}

// fork is a line of a history file: the timeline begins there.
type fork struct {
	timeline uint32
	begin    uint64
}

// segment is the length of a segment of WAL, in entries.
const segment = 4

// pg is a server with its disk.
type pg struct {
	system  uint64 // 0: the directory is empty
	log     []row
	path    []fork            // of the timeline of the WAL, from timeline 1
	files   map[uint32][]fork // history files in pg_wal
	primary bool              // as pg_control has it: it was not started as a standby
	up      bool
	names   uint64 // the token in synchronous_standby_names
	from    int    // primary_conninfo: a node's address; -1: nobody
	as      uint64 // the token in application_name
	stream  bool
	weak    int            // a crash leaves as few entries as this; -1: all
	acks    map[int]uint64 // of a primary, by replica
}

func (s *pg) timeline() uint32 { return s.path[len(s.path)-1].timeline }

func (s *pg) position() server.Position {
	if s.system == 0 {
		return server.Position{}
	}
	end := s.path[len(s.path)-1]
	return server.Position{SystemID: s.system, Timeline: end.timeline, Begin: end.begin, LSN: uint64(len(s.log)), Replayed: uint64(len(s.log)), Streaming: s.stream, InRecovery: !s.primary}
}

func (s *pg) crash(r *rand.Rand) {
	if s.weak >= 0 && s.weak < len(s.log) {
		s.log = s.log[:s.weak+r.IntN(len(s.log)-s.weak+1)]
	}
	s.weak, s.stream, s.up = -1, false, false
}

// promote goes to the timeline after the greatest one of which there is a history file, without a gap.
func (s *pg) promote(token uint64) {
	next := s.timeline() + 1
	for s.files[next] != nil {
		next++
	}
	s.path = append(slices.Clone(s.path), fork{next, uint64(len(s.log))})
	s.files[next] = s.path
	s.primary, s.up, s.names, s.acks, s.weak = true, true, token, map[int]uint64{}, -1
}

// clean removes the history files that are not those of the upstream, as the server does before it follows.
func (s *pg) clean(path []fork) {
	for timeline, mine := range s.files {
		i := slices.IndexFunc(path, func(f fork) bool { return f.timeline == timeline })
		if i < 0 || !slices.Equal(mine, path[:i+1]) {
			delete(s.files, timeline)
		}
	}
}

// rewind does what pg_rewind does: it takes the two to be the same up to where their histories part, which it sees by the
// numbers and the beginnings of timelines, and takes what comes after that from the source.
func (s *pg) rewind(o *pg) {
	if s.timeline() == o.timeline() {
		return // it says that both are on one timeline, and that there is nothing to do
	}
	i := 0
	for i+1 < len(s.path) && i+1 < len(o.path) && s.path[i+1] == o.path[i+1] {
		i++
	}
	part := len(s.log)
	for _, path := range [][]fork{s.path, o.path} {
		if i+1 < len(path) {
			part = min(part, int(path[i+1].begin))
		}
	}
	rows := slices.Concat(s.log[:part], o.log[min(part, len(o.log)):])
	s.copyOf(o)
	s.log = rows
}

func (s *pg) copyOf(o *pg) {
	s.system, s.log, s.path, s.files = o.system, slices.Clone(o.log), o.path, maps.Clone(o.files)
	s.primary, s.up, s.stream, s.from, s.weak = false, false, false, -1, -1
}

// node is a process with its record.
type node struct {
	pg
	record  record // on disk
	up      bool
	term    uint64            // it leads, as far as it knows
	answers map[string]answer // of its term
	begun   bool
	opened  bool // of its term: clients may write
	asked   map[int]bool
	busy    *copying
}

// copying is a copy that is being made.
type copying struct {
	of     target
	from   int
	system uint64
	rewind bool
	done   bool
}

type world struct {
	*rand.Rand
	m       rules
	k       int
	nodes   []*node
	servers []*pg // of nodes
	ids     []string
	token   uint64
	rows    int
	acked   map[row]uint64   // by the token of the primary that told its client
	opened  map[uint64][]row // the WAL of each term when its primary began to write
	before  map[row]row      // the entry after which one was written
	mail    []func()
	story   []string
	counts  map[string]int
	turns   int
	changed bool // since the last check
	rare    int  // the greater, the fewer faults
	late    int  // the greater, the later an old leader is told
}

func (w *world) has(rule string) bool { return w.m.has(rule) }

func (w *world) say(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) id(i int) string { return w.ids[i] }

func (w *world) index(id string) int { return slices.Index(w.ids, id) }

func newWorld(seed uint64, n, k int, off string) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 7)), m: rules{off: off}, k: k, acked: map[row]uint64{}, opened: map[uint64][]row{}, before: map[row]row{}, counts: map[string]int{}}
	for i := range n {
		w.ids = append(w.ids, "n"+strconv.Itoa(i+1))
		w.nodes = append(w.nodes, &node{up: true, pg: pg{from: -1, weak: -1}})
	}
	for _, n := range w.nodes {
		w.servers = append(w.servers, &n.pg)
	}
	if seed%4 > 0 { // it was founded long ago
		w.token = 1
		w.opened[1] = nil
		for i, n := range w.nodes {
			n.pg = pg{system: 1, path: []fork{{1, 0}}, files: map[uint32][]fork{}, primary: i == 0, from: -1, weak: -1, acks: map[int]uint64{}}
			n.record = record{SystemID: 1, Promised: 1, Followed: 1, Eras: []era{{Timeline: 1, Token: 1}}, Primary: i == 0, Whole: true}
		}
	}
	return w
}

// ask has a node answer a prepare, as serve does: save the promise, stop writing and receiving, then answer.
func (w *world) ask(j int, token uint64) (answer, bool) {
	n := w.nodes[j]
	r, ok := w.m.promise(n.record, max(token, 0))
	if !ok || !n.up {
		return answer{}, false
	}
	n.record = r
	n.busy = nil
	if n.pg.primary && n.pg.up && (token != n.term || !n.begun) && w.has("stop") {
		n.pg.crash(w.Rand) // an immediate stop
	}
	if w.has("detach") {
		n.from, n.stream = -1, false
	}
	if n.term != 0 && n.term < token {
		n.term = 0
	}
	n.record = w.m.saw(n.record, n.position())
	return w.m.answer(w.id(j), 1, n.record, n.position(), n.system == 0), true
}

// decide is what a leader does with what it has.
func (w *world) decide(i int) {
	n := w.nodes[i]
	if n.term == 0 || n.begun || n.answers[w.id(i)].ID == "" {
		return
	}
	v, to, _ := w.m.choose(w.id(i), w.ids, w.k, n.answers)
	switch v {
	case yield:
		n.term = 0
		w.say("%s yields to %s", w.id(i), to)
		if j := w.index(to); w.nodes[j].up {
			w.win(j)
		}
	case promote, found:
		r, ok := w.m.begin(n.record, n.term)
		if !ok {
			n.term = 0
			return
		}
		if v == found {
			n.pg = pg{system: n.term, path: []fork{{1, 0}}, files: map[uint32][]fork{}, primary: true, up: true, names: n.term, from: -1, weak: -1, acks: map[int]uint64{}}
			r.Whole, r.Founding = true, true
		}
		n.record, n.begun = r, true
		w.say("%s begins %d (%v)", w.id(i), n.term, v)
	}
}

// open is the promotion itself, after which clients may write.
func (w *world) open(i int) {
	n := w.nodes[i]
	if !n.begun || n.opened || n.term == 0 {
		return
	}
	if !(n.record.Founding && len(n.record.Eras) == 0) {
		n.pg.promote(n.term)
	}
	if w.IntN(8) == 0 { // it dies before it has noted the timeline
		w.crash(i, true)
		return
	}
	n.record = w.m.promoted(n.record, n.position())
	n.opened = true
	w.opened[n.term], w.changed = slices.Clone(n.log), true
	w.counts["promotions"]++
	w.say("%s opens %d on timeline %d at %d", w.id(i), n.term, n.timeline(), len(n.log))
}

func (w *world) win(i int) {
	n := w.nodes[i]
	if !n.up {
		return
	}
	w.token++
	if n.term != 0 && n.pg.primary {
		n.pg.crash(w.Rand)
	}
	n.term, n.answers, n.begun, n.opened, n.asked = w.token, map[string]answer{}, false, false, map[int]bool{}
	if a, ok := w.ask(i, n.term); ok {
		n.answers[w.id(i)] = a
	}
	w.say("%s wins %d: %+v", w.id(i), w.token, n.answers[w.id(i)])
}

// crash ends the server, and perhaps the process.
func (w *world) crash(i int, process bool) {
	n := w.nodes[i]
	n.pg.crash(w.Rand)
	if n.term != 0 {
		n.term = 0
	}
	n.begun, n.opened, n.busy = false, false, nil
	if process {
		n.up = false
	}
	w.say("%s crashes (process %v): %d rows", w.id(i), process, len(n.log))
}

// settle is one turn of a node that does not lead: it hears of a leader and acts.
func (w *world) settle(j int, t target, system, end uint64, path []fork, confirmed bool) {
	n := w.nodes[j]
	if !n.up || n.term != 0 || t.ID == w.id(j) || n.busy != nil {
		return
	}
	n.record = w.m.saw(n.record, n.position())
	p := n.position()
	s, why := w.m.plan(n.record, p, n.system == 0, t, system)
	if s == rebuild && !confirmed && w.has("welcome") {
		return
	}
	i := w.index(t.ID)
	switch s {
	case follow:
		if n.pg.primary || !n.pg.up {
			n.pg.crash(w.Rand)
			if p2 := n.position(); p2.LSN != p.LSN {
				return // once more, by what is there now
			}
		}
		n.record = w.m.aim(n.record, p, t)
		n.pg.clean(path)
		n.pg.primary, n.pg.up = false, true
		n.from, n.as, n.stream = i, t.Token, false
	case rewind, rebuild:
		w.counts[map[step]string{rewind: "rewinds", rebuild: "rebuilds"}[s]]++
		w.say("%s: %s from %s (%d): %s", w.id(j), map[step]string{rewind: "rewind", rebuild: "rebuild"}[s], t.ID, t.Token, why)
		n.pg.crash(w.Rand)
		n.record = w.m.breaking(n.record)
		if s == rebuild {
			n.record.Promised = max(n.record.Promised, t.Token)
		}
		n.from, n.busy = -1, &copying{of: t, from: i, system: system, rewind: s == rewind}
	}
}

// copyStep goes on with a copy: the data first, then the question how far the primary is.
func (w *world) copyStep(j int) {
	n := w.nodes[j]
	b := n.busy
	if b == nil || !n.up {
		return
	}
	o := w.nodes[b.from]
	if !b.done {
		if !o.pg.up || o.system == 0 || o.record.Copied != 0 {
			n.busy = nil
			return
		}
		if b.rewind {
			n.pg.rewind(&o.pg)
		} else {
			n.pg.copyOf(&o.pg)
		}
		b.done = true
		return
	}
	n.busy = nil
	if o.up && o.term == b.of.Token && o.opened && o.pg.primary {
		n.record = w.m.copied(n.record, b.of, b.system, uint64(len(o.log)))
	}
}

// flow moves WAL to a replica, if PostgreSQL would. names: confirmations are bound to a term.
func flow(all []*pg, j int, names bool) {
	n := all[j]
	if !n.up || n.primary || n.from < 0 {
		n.stream = false
		return
	}
	o := all[n.from]
	if !o.up || o == n || o.system != n.system {
		n.stream = false
		return
	}
	i := slices.IndexFunc(o.path, func(f fork) bool { return f.timeline == n.timeline() })
	if i < 0 || i+1 < len(o.path) && uint64(len(n.log)) > o.path[i+1].begin || len(n.log) > len(o.log) {
		n.stream = false // not a child, or ahead
		return
	}
	if i+1 < len(o.path) {
		if uint64(len(n.log)) < o.path[i+1].begin {
			if len(n.log) == len(o.log) {
				return // only where a rule is off: it has no more, although its timeline begins later
			}
			n.log = append(n.log, o.log[len(n.log)])
			return
		}
		for _, f := range o.path[i+1:] { // a history file that is there is not fetched
			if mine := n.files[f.timeline]; mine != nil && mine[len(mine)-1] != f {
				return
			}
		}
		next := o.path[:i+2]
		n.path, n.weak = next, len(n.log)/segment*segment
		n.files[next[i+1].timeline] = next
		return
	}
	n.stream = true
	if n.weak >= 0 { // the segment is received again
		if n.weak++; n.weak < len(n.log) {
			return
		}
		n.weak = -1
	}
	if len(n.log) < len(o.log) {
		n.log = append(n.log, o.log[len(n.log)])
	}
	if o.primary && (o.names == n.as || !names) {
		o.acks[j] = max(o.acks[j], uint64(len(n.log)))
	}
}

// write appends at a primary, and tells clients of what k replicas have.
func (w *world) write(i int) error {
	n := w.nodes[i]
	if !n.pg.up || !n.pg.primary {
		return nil
	}
	w.rows++
	e := row{n.names, w.rows}
	if len(n.log) > 0 {
		w.before[e] = n.log[len(n.log)-1]
	}
	n.log = append(n.log, e)
	return nil
}

func (w *world) confirm(i int) error {
	n := w.nodes[i]
	if !n.pg.up || !n.pg.primary || w.opened[n.names] == nil && n.names != 1 {
		return nil
	}
	all := slices.Sorted(maps.Values(n.acks))
	if len(all) < w.k {
		return nil
	}
	for _, e := range n.log[:all[len(all)-w.k]] {
		if w.acked[e] == 0 {
			w.acked[e], w.changed = n.names, true
			w.counts["acknowledged"]++
		}
	}
	return nil
}

// check looks for an acknowledged entry that the primary of a later term does not have, and for a primary whose data is
// not what its WAL says: it was mixed from two.
func (w *world) check() error {
	for _, token := range slices.Sorted(maps.Keys(w.opened)) {
		has := map[row]bool{}
		var last row
		for _, e := range w.opened[token] {
			if w.before[e] != last {
				return fmt.Errorf("the primary of term %d has entry %v after %v; it was written after %v", token, e, last, w.before[e])
			}
			has[e], last = true, e
		}
		for e, by := range w.acked {
			if by < token && !has[e] {
				return fmt.Errorf("entry %v was acknowledged in term %d, and the primary of term %d did not have it", e, by, token)
			}
		}
	}
	return nil
}

func (w *world) turn() error {
	i, j := w.IntN(len(w.nodes)), w.IntN(len(w.nodes))
	if w.turns++; w.turns%200 == 1 {
		w.rare = []int{4, 15, 60}[w.IntN(3)] // times of trouble and of peace
		w.late = []int{2, 30}[w.IntN(2)]
	}
	if lead := slices.IndexFunc(w.nodes, func(n *node) bool { return n.term == w.token && w.token > 0 }); lead >= 0 && w.IntN(3) == 0 {
		i = lead
	}
	if old := slices.IndexFunc(w.nodes, func(n *node) bool { return n.pg.up && n.pg.primary && n.names < w.token }); old >= 0 && w.IntN(3) == 0 {
		i = old // a zombie is busy
	}
	n := w.nodes[i]
	what := w.IntN(40)
	if len(w.mail) > 4 && w.IntN(2) == 0 {
		what = 39
	}
	switch what {
	case 0:
		if i = w.IntN(len(w.nodes)); w.IntN(w.rare) == 0 || w.nodes[i].term == 0 && w.IntN(4) == 0 && !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.term == w.token }) {
			w.win(i)
		}
	case 1, 2, 3, 4, 5, 6: // a leader asks
		if n.term == 0 || n.begun && w.has("late") || !n.up {
			break
		}
		term := n.term
		w.mail = append(w.mail, func() {
			if a, ok := w.ask(j, term); ok {
				w.mail = append(w.mail, func() {
					if n.term == term && n.up {
						n.answers[w.id(j)] = a
					}
				})
			}
		})
	case 7, 8:
		w.decide(i)
	case 9, 10:
		w.open(i)
	case 11, 12, 13, 14, 15: // a node asks the leader that it knows
		if !n.up || n.term == 0 || !n.opened || !n.pg.up {
			break
		}
		t := target{ID: w.id(i), Token: n.term, Eras: n.record.Eras}
		system, end, path, confirmed := n.system, uint64(len(n.log)), n.path, n.term == w.token
		to := func() { w.settle(j, t, system, end, path, confirmed) }
		if confirmed { // the answer to a question that was asked in this life of j
			to()
			break
		}
		w.mail = append(w.mail, to)
	case 16, 17:
		w.copyStep(i)
	case 18, 19, 20, 21, 22, 23, 24:
		flow(w.servers, i, w.has("names"))
	case 25, 26, 27:
		if err := w.write(i); err != nil {
			return err
		}
	case 28, 29, 30:
		if err := w.confirm(i); err != nil {
			return err
		}
	case 31: // a process ends, or its server
		if w.IntN(w.rare) == 0 {
			w.crash(i, w.IntN(2) == 0)
		}
	case 32, 33:
		n.up = true
		if !n.pg.up && !n.pg.primary && n.system != 0 && n.busy == nil {
			n.pg.up = true // with the primary_conninfo that it has
		}
	case 34: // the leader is told, or goes by itself
		if n.term != 0 && n.term != w.token && w.IntN(w.late) == 0 {
			n.pg.crash(w.Rand)
			n.term, n.begun, n.opened = 0, false, false
		}
	case 35:
		others := !slices.ContainsFunc(w.nodes, func(o *node) bool { return !o.record.Whole })
		if w.IntN(4*w.rare) > 0 || !n.record.Whole || !others && w.IntN(20) > 0 {
			break
		}
		if !slices.ContainsFunc(w.nodes, func(o *node) bool { return o != n && o.record.SystemID != 0 }) {
			break // the last trace of the cluster: nobody could tell it from one that never was
		}
		w.crash(i, true)
		n.record = record{}
		if w.IntN(2) == 0 {
			n.pg = pg{from: -1, weak: -1}
		}
		w.counts["lost"]++
		w.say("%s has lost its record (rows: %d)", w.id(i), len(n.log))
		if !w.has("lost") && n.system != 0 { // taken for whole
			n.record = record{SystemID: n.system, Whole: true, Followed: 1, Eras: []era{{Timeline: n.timeline()}}}
		}
	default: // a message arrives, or is lost
		if len(w.mail) == 0 {
			break
		}
		at := w.IntN(len(w.mail))
		if w.IntN(2) == 0 {
			at = 0
		}
		m := w.mail[at]
		w.mail = slices.Delete(w.mail, at, at+1)
		if w.IntN(5) > 0 {
			m()
		}
	}
	for i, n := range w.nodes {
		n.record = w.m.saw(n.record, n.position())
		if n.opened && n.record.Founding && n.term == w.token {
			whole := 0
			for _, o := range w.nodes {
				if o.record.Whole && o.record.Followed == n.term {
					whole++
				}
			}
			n.record.Founding = whole < len(w.nodes)-w.k
		}
		_ = i
	}
	return nil
}

// run plays one world to its end.
func run(seed uint64, off string, turns int) (*world, error) {
	sizes := [...][2]int{{3, 1}, {3, 1}, {5, 2}, {4, 1}, {2, 1}, {4, 2}}
	size := sizes[seed/4%uint64(len(sizes))]
	w := newWorld(seed, size[0], size[1], off)
	for range turns {
		if err := w.turn(); err != nil {
			return w, err
		}
		if w.changed {
			if err := w.check(); err != nil {
				return w, err
			}
			w.changed = false
		}
	}
	return w, nil
}

func seeds(short int) int {
	if n, err := strconv.Atoi(os.Getenv("MODEL_SEEDS")); err == nil {
		return n
	}
	return short
}

func TestModel(t *testing.T) {
	sum := map[string]int{}
	for seed := range uint64(seeds(400)) {
		w, err := run(seed, "", 3000)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.story, "\n"))
		}
		for k, v := range w.counts {
			sum[k] += v
		}
	}
	t.Log(sum)
	for _, what := range []string{"promotions", "acknowledged", "rewinds", "rebuilds", "lost"} {
		if sum[what] < 50 {
			t.Errorf("%s: %d; want at least 50, or the model shows little", what, sum[what])
		}
	}
}

// TestRules switches single rules off, and the model has to find a loss. It finds none without the rules begin,
// begin-promised and names, behind which others stand, nor without floor, behind which is begin. The rule noted is for
// TestInterrupted.
func TestRules(t *testing.T) {
	long.Full(t, "it plays many worlds with each rule off")
	for _, off := range []string{
		"quorum", "promise", "detach", "stop", "floor,begin", "whole", "term", "best",
		"collision", "streamed", "lost", "welcome",
	} {
		t.Run(off, func(t *testing.T) {
			for seed := range uint64(seeds(20000)) {
				if _, err := run(seed, off, 3000); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("without the rule %s nothing was lost in all runs; want a run that loses", off)
		})
	}
}
