package groupbench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/conditions"
)

const (
	// patience is how long one step may take: joining a slow store with many candidates, for example.
	patience = 3 * time.Minute
	// look is the interval between two questions to nodes.
	look = 10 * time.Millisecond
	// calm is how long nodes must have used little of a processor until they count as idle, and little is that much.
	calm, little = 500 * time.Millisecond, 0.1
	// Nodes is how many each system has, but while one more joins.
	Nodes = 3
)

// System is one way to lead many keys at one place.
type System struct {
	Use   Use
	Shown string // the place, without a password
	Group bool   // the keys are those of a group
	// Place makes a place for one number of keys.
	Place func() (Place, error)
}

// Place are the arguments of a node that say where the elections are, by its id.
type Place func(id string) []string

// Config configures Run. All fields but Idle and Promise are required.
type Config struct {
	Program  string // this program
	Node     string // its verb that runs RunNode
	Systems  []System
	Keys     []int // of each system, one number after the other
	Rounds   int
	Moves    int           // of single keys in a round
	Idle     time.Duration // how long to measure idle nodes; 0: not at all
	Promise  time.Duration // of the groups; 0: their default
	Progress func(format string, args ...any)
}

// setup is one system with one number of keys.
type setup struct {
	cfg     *Config
	system  System
	place   Place
	keys    int
	cluster *cluster.Cluster
	nodes   [Nodes + 1]*member // the last one is there only to join
	result  *Result
	empty   map[*member]uint64 // bytes on the heap of a node that leads nothing

	// What is known of each key, by the events of nodes that could be asked.
	state []state
}

// member is a node's process, with its keeper.
type member struct {
	id      string
	index   int
	cand    *cluster.Candidate
	pid     int // of the program,
	keeper  int // and of its keeper; 0 if there is none
	in      *os.File
	answers chan answer
	ended   chan error // has one value when it writes no more
}

// Run measures. The report is of use even after an error.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	report = newReport(&cfg)
	all := make([]*setup, 0, len(cfg.Systems)*len(cfg.Keys))
	defer func() {
		for _, s := range all {
			s.close()
		}
		report.LoadAfter = conditions.Load()
	}()
	for _, keys := range cfg.Keys {
		for _, system := range cfg.Systems {
			s := &setup{
				cfg: &cfg, system: system, keys: keys, cluster: &cluster.Cluster{Program: cfg.Program},
				result: report.add(&system, keys), empty: map[*member]uint64{}, state: make([]state, keys),
			}
			all = append(all, s)
			if err := s.begin(ctx); err != nil {
				return report, s.wrong("start", err)
			}
		}
	}
	if cfg.Idle > 0 {
		if err := idle(ctx, &cfg, all); err != nil {
			return report, err
		}
	}
	for round := range cfg.Rounds {
		cfg.Progress("round %d of %d", round+1, cfg.Rounds)
		for _, kind := range kinds() {
			for _, s := range all { // they take turns
				if !kind.of(&s.system) {
					continue
				}
				if err := s.round(ctx, kind); err != nil {
					return report, s.wrong(string(kind), err)
				}
			}
		}
	}
	return report, report.Err()
}

func (s *setup) wrong(what string, err error) error {
	return fmt.Errorf("%s of %d keys at %s, %s: %w", s.system.Use, s.keys, s.system.Shown, what, err)
}

// begin starts the nodes and has them lead all keys.
func (s *setup) begin(ctx context.Context) error {
	s.cfg.Progress("%s of %d keys at %s", s.system.Use, s.keys, s.system.Shown)
	var err error
	if s.place, err = s.system.Place(); err != nil {
		return err
	}
	for i := range Nodes {
		if err := s.start(ctx, i); err != nil {
			return err
		}
	}
	if err := s.admitted(ctx); err != nil {
		return err
	}
	for _, m := range s.living() {
		a, err := m.ask(ctx, order{Do: doHeap})
		if err != nil {
			return err
		}
		s.empty[m] = a.Heap
	}
	return s.join(ctx)
}

// start starts a node, and waits until it is ready.
func (s *setup) start(ctx context.Context, index int) error {
	m := &member{id: "n" + strconv.Itoa(index+1), index: index, answers: make(chan answer, 1), ended: make(chan error, 1)}
	args := slices.Concat([]string{s.cfg.Node}, s.place(m.id), []string{
		"--use", string(s.system.Use), "--id", m.id, "--index", strconv.Itoa(index), "--nodes", strconv.Itoa(Nodes), "--keys", strconv.Itoa(s.keys),
		"--promise", s.cfg.Promise.String(),
	})
	in, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := exec.Command(s.cfg.Program, args...)
	cmd.Stdin, m.in = in, stdin
	var out *os.File
	if m.cand, out, err = s.cluster.SpawnRead(m.id, cmd); err != nil {
		_ = stdin.Close()
		return err
	}
	s.nodes[index] = m
	go func() {
		defer out.Close()
		r := json.NewDecoder(bufio.NewReader(out))
		for {
			var a answer
			if err := r.Decode(&a); err != nil {
				m.ended <- err
				return
			}
			m.answers <- a
		}
	}()
	a, err := m.next(ctx)
	if m.pid = a.PID; m.pid != m.cand.PID {
		m.keeper = a.Parent
	}
	return err
}

// ask has a node do something.
func (m *member) ask(ctx context.Context, o order) (answer, error) {
	line, err := json.Marshal(&o)
	if err == nil {
		_, err = m.in.Write(append(line, '\n'))
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s cannot be told to %s: %w; it said last: %q", m.id, o.Do, err, m.cand.Lines(3))
	}
	a, err := m.next(ctx)
	if err != nil {
		return a, fmt.Errorf("%s was told to %s: %w", m.id, o.Do, err)
	}
	return a, nil
}

func (m *member) next(ctx context.Context) (answer, error) {
	select {
	case a := <-m.answers:
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case err := <-m.ended:
		m.ended <- err
		return answer{}, fmt.Errorf("%s has ended; it said last: %q", m.id, m.cand.Lines(3))
	case <-time.After(patience):
		return answer{}, fmt.Errorf("%s does not answer; it said last: %q", m.id, m.cand.Lines(3))
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// living are the nodes that have not been brought down.
func (s *setup) living() []*member {
	var all []*member
	for _, m := range s.nodes {
		if m != nil {
			all = append(all, m)
		}
	}
	return all
}

// each asks all living nodes.
func (s *setup) each(ctx context.Context, o order) ([]answer, error) {
	var all []answer
	for _, m := range s.living() {
		a, err := m.ask(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// until asks the living nodes for their counts until these are right.
func (s *setup) until(ctx context.Context, what string, right func(held, begun int) bool) error {
	late := time.After(patience)
	for {
		all, err := s.each(ctx, order{Do: doCount})
		if err != nil {
			return err
		}
		held, begun := 0, 0
		for _, a := range all {
			held, begun = held+a.Held, begun+a.Begun
		}
		if right(held, begun) {
			return nil
		}
		select {
		case <-time.After(look):
		case <-late:
			_, err := s.each(ctx, order{Do: doTrouble})
			return fmt.Errorf("waiting until %s: %d of %d keys are led after %v; %w", what, held, s.keys, patience, cmp.Or(err, errors.New("no member says why")))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *setup) led(ctx context.Context) error {
	return s.until(ctx, "all are led", func(held, _ int) bool { return held == s.keys })
}

// admitted waits until a group has all its members.
func (s *setup) admitted(ctx context.Context) error {
	if !s.system.Group {
		return nil
	}
	return s.status(ctx, "all members are admitted", func(a *answer) bool {
		n := 0
		for _, m := range a.Status.Members {
			if m.Admitted && m.Attached {
				n++
			}
		}
		return n == len(s.living()) && len(a.Status.Members) == n && !a.Status.Covering
	})
}

func (s *setup) status(ctx context.Context, what string, right func(*answer) bool) error {
	late := time.After(patience)
	for {
		a, err := s.living()[0].ask(ctx, order{Do: doStatus})
		if err == nil && right(&a) {
			return nil
		}
		select {
		case <-time.After(5 * look):
		case <-late:
			return fmt.Errorf("waiting until %s: %+v, %w", what, a.Status, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settled waits until nothing happens any more.
func (s *setup) settled(ctx context.Context) error {
	if s.system.Use == Shards {
		err := s.status(ctx, "the members have equally many keys", func(a *answer) bool {
			least, most := s.keys, 0
			for _, m := range a.Status.Members {
				least, most = min(least, m.Keys), max(most, m.Keys)
			}
			return a.Status.Moving == 0 && a.Status.Held == s.keys && most-least <= 1
		})
		return cmp.Or(err, s.led(ctx)) // the coordinator knows it before the members have begun
	}
	for late := time.Now().Add(patience); ; {
		before, err := s.used()
		if err != nil {
			return err
		}
		if err := wait(ctx, calm); err != nil {
			return err
		}
		after, err := s.used()
		if err != nil {
			return err
		}
		if (after-before).Seconds() < little*calm.Seconds() || time.Now().After(late) {
			return s.led(ctx)
		}
	}
}

// used is the CPU time of all processes.
func (s *setup) used() (sum time.Duration, err error) {
	for _, m := range s.living() {
		for _, pid := range m.pids() {
			used, err := conditions.CPUTime(pid)
			if err != nil {
				return 0, err
			}
			sum += used
		}
	}
	return sum, nil
}

// pids are those of the program, and, if it has a keeper, of that and of the process that was started first.
func (m *member) pids() []int {
	if m.keeper == 0 {
		return []int{m.pid}
	}
	return []int{m.pid, m.keeper, m.cand.PID}
}

// join has the nodes lead all keys, which they have given up before, and measures that.
func (s *setup) join(ctx context.Context) error {
	if err := s.tell(ctx, doYield); err != nil {
		return err
	}
	if err := s.until(ctx, "none is led", func(held, _ int) bool { return held == 0 }); err != nil {
		return err
	}
	if err := s.learn(ctx); err != nil {
		return err
	}
	before := stamp.Now()
	if err := s.tell(ctx, doStand); err != nil {
		return err
	}
	if err := s.led(ctx); err != nil {
		return err
	}
	if s.system.Use != Shards {
		if err := s.tell(ctx, doSecond); err != nil {
			return err
		}
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	events, err := s.logs(ctx)
	if err != nil {
		return err
	}
	s.result.joined(before, events)
	s.judge(events)
	return nil
}

// tell gives all living nodes an order at once.
func (s *setup) tell(ctx context.Context, do string) error {
	all := s.living()
	errs := make(chan error, len(all))
	for _, m := range all {
		go func() { _, err := m.ask(ctx, order{Do: do}); errs <- err }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-errs)
	}
	return err
}

// logs are what has happened at the living nodes since they were last asked.
func (s *setup) logs(ctx context.Context) (events []ofNode, err error) {
	for _, m := range s.living() {
		a, err := m.ask(ctx, order{Do: doLog})
		if err != nil {
			return nil, err
		}
		if events, err = addLog(events, m.index, a.Log); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// learn takes what has happened into what is known.
func (s *setup) learn(ctx context.Context) error {
	events, err := s.logs(ctx)
	if err == nil {
		s.judge(events)
	}
	return err
}

// idle measures what all systems cost that do nothing, side by side.
func idle(ctx context.Context, cfg *Config, all []*setup) error {
	for _, s := range all { // garbage of the joining is not of the rest
		answers, err := s.each(ctx, order{Do: doHeap})
		if err != nil {
			return s.wrong("at rest", err)
		}
		s.result.heap(s, answers)
	}
	if err := wait(ctx, 2*time.Second); err != nil {
		return err
	}
	cfg.Progress("at rest for %v", cfg.Idle)
	before, began := make([]time.Duration, len(all)), time.Now()
	for i, s := range all {
		var err error
		if before[i], err = s.used(); err != nil {
			return s.wrong("at rest", err)
		}
	}
	if err := wait(ctx, cfg.Idle); err != nil {
		return err
	}
	took := time.Since(began)
	for i, s := range all {
		after, err := s.used()
		if err != nil {
			return s.wrong("at rest", err)
		}
		s.result.Idle = &Idle{Seconds: took.Seconds(), CPU: 100 * (after - before[i]).Seconds() / took.Seconds()}
		for _, m := range s.living() {
			for _, pid := range m.pids() {
				memory, err := conditions.MemoryOf(pid)
				if err != nil {
					return s.wrong("at rest", err)
				}
				s.result.Idle.Resident += memory.Resident
				s.result.Idle.Share += memory.Share
			}
		}
	}
	return nil
}

func (s *setup) close() {
	s.cluster.Close()
	for _, m := range s.living() {
		_ = m.in.Close()
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
