//go:build linux

package groups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/internal/spawn"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/register"
)

// Setup is a kind of group.
type Setup struct {
	Name, Text string
	members    int
	promise    time.Duration
	peers      string // the profile of the coordinator's election among the same processes; none: it is in a file
}

// Setups are all of them.
func Setups() []Setup {
	return []Setup{
		{"group-peers", "5 members of a group, which elect their coordinator by peer:, profile lan; promise 2 s", 5, 2 * time.Second, "lan"},
		{"group-file", "4 members of a group, whose coordinator is elected in a file; promise 1 s", 4, time.Second, ""},
	}
}

const (
	keys      = 240
	elections = 40   // of these: led by Group.Elector, and the others by Group.Run
	rate      = "40" // writes of a member, in a second
	// bound is how long it may take, in promises, until all keys are held after the last fault, as for any leader of
	// package judge.
	bound = 30
	slack = 30 * time.Second // beyond what a member takes to leave: the machine may be busy
)

// Options are those of a storm.
type Options struct {
	Setup  string
	Seed   uint64
	For    time.Duration // how long faults begin
	Faults []string      // those that may come; none: all
	Mutant string        // the mistake that the members make
	Worker string        // the program
	Dir    string        // of the run, which is made
	// Progress is told the state every 10 s; nil: nobody is.
	Progress func(string)
}

// storm is one that goes on. One goroutine owns it.
type storm struct {
	Options
	setup   Setup
	net     network.Network
	url     string
	starter spawn.Starter
	ledger  *lives.Ledger
	faults  *os.File
	all     []*process
	past    []*life // of processes that were killed and may not have ended
	dice    *rand.Rand
	undo    []later
	cuts    []*network.Links
	count   int
}

// later is what ends a fault.
type later struct {
	at time.Time
	do func() error
}

// act is one line of FaultsFile.
type act struct {
	At   int64  `json:"at"`
	What string `json:"what"` // a fault, or one of the words below
	Node int    `json:"node"` // -1: none
	Pid  int    `json:"pid,omitempty"`
	Text string `json:"text,omitempty"`
	// Coordinator says that the killed one was the coordinator, and Witness that its keeper lives and will speak.
	Coordinator bool `json:"coordinator,omitempty"`
	Witness     bool `json:"witness,omitempty"`
}

// FaultsFile is what the storm did, in the directory of a run.
const FaultsFile = "faults.ndjson"

// The words of acts beside the names of faults.
const (
	began   = "began"   // all keys are held for the first time, and faults begin
	killed  = "killed"  // a process died by SIGKILL; Pid is that of its program, and Text the parts
	fenced  = "fenced"  // a guarded one was killed by its keeper, whose deadline had come
	healed  = "healed"  // a fault has ended
	calm    = "calm"    // the last one has
	led     = "led"     // all keys are held again
	unled   = "unled"   // they are not, after the bound
	crashed = "crashed" // a process has ended that was not told to
	stuck   = "stuck"   // one has not ended that was told to
)

// Check returns what is wrong with the names of a setup and of faults.
func Check(setup string, faults []string) error {
	_, err := find(setup, faults)
	return err
}

func find(setup string, faults []string) (found Setup, err error) {
	var names []string
	for _, f := range Faults() {
		names = append(names, f.Name)
	}
	for _, name := range faults {
		if !slices.Contains(names, name) {
			return found, fmt.Errorf("groups: there is no fault %q; want one of %s", name, strings.Join(names, ", "))
		}
	}
	names = nil
	for _, s := range Setups() {
		if s.Name == setup {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return found, fmt.Errorf("groups: there is no setup %q; want one of %s", setup, strings.Join(names, ", "))
}

// Run carries out a storm and judges it.
func Run(ctx context.Context, o Options) (*Report, error) {
	setup, err := find(o.Setup, o.Faults)
	if err != nil {
		return nil, err
	}
	s := &storm{Options: o, setup: setup, dice: rand.New(rand.NewPCG(o.Seed, 0x6b6565706572))}
	if err := s.carryOut(ctx, draw(o.Seed, o.For, setup.promise, o.Faults)); err != nil {
		return nil, err
	}
	return Judge(o.Dir)
}

func (s *storm) carryOut(ctx context.Context, schedule []event) (err error) {
	for _, dir := range []string{"log", "data"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	if s.faults, err = os.Create(filepath.Join(s.Dir, FaultsFile)); err != nil {
		return err
	}
	defer s.faults.Close()
	if s.ledger, err = lives.Open(filepath.Join(s.Dir, "ledger")); err != nil {
		return err
	}
	defer s.ledger.Close()
	server, err := register.Serve(filepath.Join(s.Dir, register.Socket))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if s.net, err = network.NewProxies(s.Dir, s.setup.members); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.net.Close()) }()
	s.url = "file:" + filepath.Join(s.Dir, "data")
	if s.setup.peers != "" {
		var peers []string
		for i := range s.setup.members {
			peers = append(peers, name(i)+"@"+s.net.Addr(i))
		}
		s.url = "peer://" + strings.Join(peers, ",") + "?profile=" + s.setup.peers + "&data=" + filepath.Join(s.Dir, "data")
	}
	defer s.end()
	for node := range s.setup.members {
		s.all = append(s.all, &process{node: node})
		if err := s.start(node); err != nil {
			return err
		}
	}
	if held, err := s.await(ctx, 2*time.Minute); err != nil || held < keys {
		return cmp.Or(err, fmt.Errorf("groups: %d of %d keys are held two minutes after the beginning", held, keys))
	}
	if err := s.note(act{What: began, Node: -1, Text: s.Setup}); err != nil {
		return err
	}
	if err := s.play(ctx, schedule); err != nil {
		return err
	}
	held, err := s.await(ctx, bound*s.setup.promise)
	switch {
	case err != nil:
		return err
	case held < keys:
		return s.note(act{What: unled, Node: -1, Text: fmt.Sprintf("%d of %d keys are held %v after the last fault", held, keys, bound*s.setup.promise)})
	}
	return s.note(act{What: led, Node: -1})
}

func name(node int) string { return "n" + strconv.Itoa(node+1) }

// play lets all faults begin and end.
func (s *storm) play(ctx context.Context, schedule []event) error {
	next := time.Now()
	report := next.Add(10 * time.Second)
	for {
		due := next // of what comes first
		if len(schedule) > 0 {
			due = next.Add(schedule[0].after)
		} else if len(s.undo) == 0 {
			for i := range s.all { // an earlier word may not have come through
				s.tell(0, "drain "+name(i)+" false")
			}
			return s.note(act{What: calm, Node: -1})
		}
		slices.SortStableFunc(s.undo, func(a, b later) int { return a.at.Compare(b.at) })
		undo := len(s.undo) > 0 && (len(schedule) == 0 || s.undo[0].at.Before(due))
		if undo {
			due = s.undo[0].at
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(due)):
		}
		if err := s.look(); err != nil {
			return err
		}
		if s.Progress != nil && time.Now().After(report) {
			s.Progress(fmt.Sprintf("%d faults, %d lives", s.count, s.ledger.Len()))
			report = time.Now().Add(10 * time.Second)
		}
		if undo {
			do := s.undo[0].do
			s.undo = s.undo[1:]
			if err := do(); err != nil {
				return err
			}
			continue
		}
		e := schedule[0]
		schedule, next = schedule[1:], due
		if err := s.begin(ctx, e); err != nil {
			return err
		}
	}
}

// begin begins a fault, if there is somebody whom it can befall.
func (s *storm) begin(ctx context.Context, e event) error {
	coordinator, others := s.choose()
	var who []*process
	kind, which, _ := strings.Cut(e.name, "-")
	member := func() {
		if len(others) > 0 {
			who = append(who, others[e.who%len(others)])
		}
	}
	switch {
	case which == "writing" || kind == "late":
		all := others
		if coordinator != nil {
			all = append(all, coordinator)
		}
		if kind == "late" {
			all = slices.DeleteFunc(all, func(p *process) bool { return !p.guarded })
		}
		if len(all) > 0 {
			who = append(who, all[e.who%len(all)])
		}
	case which == "all":
		who = others
		if coordinator != nil {
			who = append(who, coordinator)
		}
	case which == "both" || kind == "slow":
		if coordinator == nil || len(others) == 0 {
			return nil
		}
		who = append(who, coordinator)
		member()
	case which == "coordinator":
		if coordinator == nil {
			return nil
		}
		who = append(who, coordinator)
	default:
		member()
	}
	if len(who) == 0 {
		return nil
	}
	s.count++
	if err := s.note(act{What: e.name, Node: who[len(who)-1].node}); err != nil {
		return err
	}
	wait := e.lasts
	switch kind {
	case "kill":
		if err := s.kill(ctx, e, coordinator, who); err != nil {
			return err
		}
		return s.after(e, wait, func() error { return s.startAll(who) })
	case "late":
		old := who[0].life
		if err := s.late(ctx, who[0], who[0] == coordinator); err != nil {
			return err
		}
		return s.after(e, wait+2*s.setup.promise, func() error { // the new one has keys by now
			old.signal(syscall.SIGCONT, "keeper front")
			return nil
		})
	case "freeze":
		hit := "program" // its keeper kills it, if that lasts
		if e.who>>4&1 == 0 {
			hit = "front keeper program"
		}
		var lives []*life
		for _, p := range who {
			p.frozen++
			lives = append(lives, p.life)
			p.signal(syscall.SIGSTOP, hit)
		}
		return s.after(e, wait, func() error {
			for _, l := range lives {
				if l.frozen--; l.frozen == 0 {
					l.signal(syscall.SIGCONT, "program keeper front")
				}
			}
			return nil
		})
	case "end":
		p := who[0]
		p.ending = true
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		return s.after(e, wait, func() error {
			select {
			case <-p.done:
				if !p.cmd.ProcessState.Success() && !p.kept() {
					if err := s.note(act{What: crashed, Node: p.node, Text: "as it ended: " + p.cmd.ProcessState.String()}); err != nil {
						return err
					}
				}
			case <-time.After(20*time.Second + slack):
				if err := s.note(act{What: stuck, Node: p.node, Pid: p.cmd.Process.Pid}); err != nil {
					return err
				}
				_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its log has the goroutines
				<-p.done
			}
			return s.start(p.node)
		})
	case "move":
		words := []string{"move", name(who[0].node)}
		for i := range 20 {
			words = append(words, strconv.Itoa((e.who+i*7)%keys))
		}
		s.tell(e.who, strings.Join(words, " "))
		return nil
	case "drain":
		s.tell(e.who, "drain "+name(who[0].node)+" true")
		return s.after(e, wait, func() error {
			s.tell(e.who, "drain "+name(who[0].node)+" false")
			return nil
		})
	case "cut", "deaf", "isolate", "slow":
		return s.cut(e, coordinator, who[len(who)-1], wait)
	}
	return fmt.Errorf("groups: the fault %q", e.name)
}

// cut breaks links between the coordinator and others.
func (s *storm) cut(e event, coordinator, p *process, wait time.Duration) error {
	if coordinator == nil {
		return nil
	}
	one := coordinator
	if e.name == "isolate-member" {
		one = p
	}
	links := network.Links{}
	for _, other := range s.all {
		if other == one || p != one && other != p {
			continue
		}
		to, from := network.Way{From: one.node, To: other.node}, network.Way{From: other.node, To: one.node}
		switch {
		case e.name == "slow-then-mute":
			links[to] = network.Link{Delay: s.setup.promise * 6 / 10}
		case e.name == "deaf-member":
			links[to] = network.Link{Cut: true}
		default:
			links[to], links[from] = network.Link{Cut: true}, network.Link{Cut: true}
		}
	}
	state := &links
	s.cuts = append(s.cuts, state)
	if err := s.join(); err != nil {
		return err
	}
	heal := func() error {
		s.cuts = slices.DeleteFunc(s.cuts, func(l *network.Links) bool { return l == state })
		return s.join()
	}
	if e.name != "slow-then-mute" {
		return s.after(e, wait, heal)
	}
	return s.after(e, 2*s.setup.promise, func() error {
		(*state)[network.Way{From: p.node, To: coordinator.node}] = network.Link{Cut: true}
		if err := s.join(); err != nil {
			return err
		}
		return s.after(e, 2*s.setup.promise, heal)
	})
}

// join sets the state of all links.
func (s *storm) join() error {
	var all []network.Links
	for _, l := range s.cuts {
		all = append(all, *l)
	}
	return s.net.Set(network.Merge(all...))
}

// choose returns the coordinator, if there is one, and the others, of those that run undisturbed.
func (s *storm) choose() (coordinator *process, others []*process) {
	for _, p := range s.all {
		switch {
		case p.life == nil || p.ending || p.frozen > 0 || p.pid("program") == 0:
		case coordinator == nil && p.coord():
			coordinator = p
		default:
			others = append(others, p)
		}
	}
	return coordinator, others
}

// tell has a member do something that needs no particular one.
func (s *storm) tell(which int, line string) {
	coordinator, all := s.choose()
	if coordinator != nil {
		all = append(all, coordinator)
	}
	if len(all) > 0 {
		_, _ = io.WriteString(all[which%len(all)].input, line+"\n") // it may have ended
	}
}

// after has a fault end.
func (s *storm) after(e event, wait time.Duration, do func() error) error {
	s.undo = append(s.undo, later{time.Now().Add(wait), func() error {
		return cmp.Or(do(), s.note(act{What: healed, Node: -1, Text: e.name}))
	}})
	return nil
}

// await waits until all keys are held, and returns how many are.
func (s *storm) await(ctx context.Context, patience time.Duration) (held int, err error) {
	const fresh = int64(500 * time.Millisecond) // a stamp that says that its key is held
	for end := time.Now().Add(patience); ; {
		if err := s.look(); err != nil {
			return 0, err
		}
		now, holding := s.ledger.Now(), map[int64]bool{}
		for _, l := range s.ledger.Since(0) {
			if now-l.Last < fresh {
				holding[l.Key] = true
			}
		}
		if held = len(holding); held == keys || time.Now().After(end) {
			return held, nil
		}
		select {
		case <-ctx.Done():
			return held, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// note writes an act down.
func (s *storm) note(a act) error {
	a.At = cmp.Or(a.At, s.ledger.Now())
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = s.faults.Write(append(line, '\n'))
	return err
}
