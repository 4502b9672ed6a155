//go:build linux

package zombie

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/peer"
)

// Config describes a play.
type Config struct {
	Opener string // one of those that Main was given
	Where  string // passed to it

	// Env is added to the leaders' environment.
	Env []string

	// Read reads the register without a leader. nil: it is not compared at the end.
	Read func(context.Context) (int64, error)

	// Wait is how long the newer leader tries to claim and write before the older one
	// goes on; 0 is two seconds. It may wait for a lock that the older one holds.
	Wait time.Duration

	// Most is how many steps are tried at most; 0: as many as there are.
	Most int
}

// Result is the result of the plays.
type Result struct {
	Plays    int // leaders that were frozen, each in front of another step
	Waited   int // plays in which the newer leader had to wait for the older one
	Refused  int // operations of older leaders that were refused
	Unknown  int // operations of older leaders that ended with another error
	Overtook int // writes of older leaders that took effect before the newer one's claim
	History  []Operation

	Stale        []Operation // applied after a greater token had been claimed
	Linearizable bool
}

// Violated reports whether anything stale was applied.
func (r Result) Violated() bool { return len(r.Stale) > 0 || !r.Linearizable }

// Text is the history, a line each.
func (r Result) Text() string {
	var b strings.Builder
	for _, o := range r.History {
		fmt.Fprintf(&b, "leader %d: %v\n", o.Leader, o)
	}
	return b.String()
}

// Prove plays, and fails the test if a stale operation was applied, or if nothing was tested: no
// leader was frozen, or none was ever refused.
func Prove(t *testing.T, cfg Config) Result {
	t.Helper()
	r := Play(t, cfg)
	t.Logf("%d plays: %d operations refused, %d with another error, %d writes before the newer claim; the newer leader waited in %d",
		r.Plays, r.Refused, r.Unknown, r.Overtook, r.Waited)
	for _, o := range r.Stale {
		t.Errorf("applied after a greater token had been claimed: %v", o)
	}
	if !r.Linearizable {
		t.Error("the history is not that of a fenced register")
	}
	if r.Plays < 3 || r.Refused == 0 {
		t.Errorf("%d plays, %d refusals: nothing was tested", r.Plays, r.Refused)
	}
	if t.Failed() {
		t.Log("the history:\n" + r.Text())
	}
	return r
}

// Disprove plays an unsafe design, and fails the test if nothing stale was applied.
func Disprove(t *testing.T, cfg Config) {
	t.Helper()
	r := Play(t, cfg)
	t.Logf("%d plays", r.Plays)
	if !r.Violated() {
		t.Error("nothing stale was applied; the history:\n" + r.Text())
	}
}

// child is a leader's process.
type child struct {
	number  int
	cmd     *exec.Cmd
	in      *json.Encoder
	stdin   io.Closer
	leads   chan fence.Token
	answers chan answer
	asleep  bool
}

// Play plays until a leader claims and writes three times in a row without coming to the
// step at which it would be frozen.
func Play(t *testing.T, cfg Config) Result {
	t.Helper()
	if cfg.Wait == 0 {
		cfg.Wait = 2 * time.Second
	}
	s := open(t, cfg)
	var r Result
	value := int64(0)
	s.first()
	for at, through := int64(0), 0; through < 3 && (cfg.Most == 0 || at < int64(cfg.Most)); {
		value += 2
		if !s.turn(&r, at, value) {
			through++ // a client may join two writes to a connection, and so take fewer steps
			continue
		}
		at, through = at+1, 0
		r.Plays++
	}
	if cfg.Read != nil {
		o := Operation{Leader: -1, Kind: Read, Call: now(), Outcome: Applied}
		last, err := cfg.Read(t.Context())
		if err != nil {
			t.Fatalf("zombie: reading beside the leaders: %v", err)
		}
		o.Value, o.Return = last, now()
		r.History = append(r.History, o)
	}
	r.Stale, r.Linearizable = StaleWrites(r.History), Linearizable(r.History)
	return r
}

// stage is where it is played.
type stage struct {
	t        *testing.T
	cfg      Config
	children []*child
	tokens   [2]fence.Token
}

func open(t *testing.T, cfg Config) *stage {
	t.Helper()
	dir := t.TempDir()
	var voters []string
	for _, id := range []string{"a", "b", "c"} {
		voters = append(voters, id+"@"+harness.FreeAddr(t))
	}
	url := "peer://" + strings.Join(voters, ",") + "?profile=fast&data=" + filepath.Join(dir, "ballots")
	s := &stage{t: t, cfg: cfg}
	for i, id := range []string{"a", "b"} {
		s.children = append(s.children, s.start(i, id, url, filepath.Join(dir, id+".log")))
	}
	third, err := elect.Openers{"peer": peer.Open}.Open(t.Context(), url, "zombie", elect.Config{ID: "c", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("zombie: the third voter: %v", err)
	}
	t.Cleanup(func() { _ = third.Close() })
	return s
}

func (s *stage) start(number int, id, url, log string) *child {
	s.t.Helper()
	c := &child{number: number, leads: make(chan fence.Token, 16), answers: make(chan answer, 1)}
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = append(append(os.Environ(), s.cfg.Env...), envOpener+"="+s.cfg.Opener, envWhere+"="+s.cfg.Where, envElection+"="+url, envID+"="+id)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := os.Create(log)
	if err != nil {
		s.t.Fatal(err)
	}
	c.cmd.Stderr = stderr
	stdin, stdout := harness.Start(s.t, c.cmd)
	c.in, c.stdin = json.NewEncoder(stdin), stdin
	var reads sync.WaitGroup
	reads.Go(func() {
		defer close(c.answers)
		in := json.NewDecoder(bufio.NewReader(stdout))
		for {
			var a answer
			if err := in.Decode(&a); err != nil {
				return
			}
			if a.Token > 0 {
				c.leads <- a.Token
				continue
			}
			c.answers <- a
		}
	})
	s.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		go func() { // there may be no receiver left
			for range c.answers {
			}
		}()
		go func() {
			for range c.leads {
			}
		}()
		reads.Wait()
		close(c.leads)
		_ = c.cmd.Wait()
		_ = stderr.Close()
		if s.t.Failed() {
			if text, err := os.ReadFile(log); err == nil {
				s.t.Logf("leader %s said:\n%s", id, text)
			}
		}
	})
	return c
}

const tooLong = 30 * time.Second

// first waits for the first leader.
func (s *stage) first() {
	s.t.Helper()
	select {
	case s.tokens[0] = <-s.children[0].leads:
	case s.tokens[1] = <-s.children[1].leads:
	case <-time.After(tooLong):
		s.t.Fatal("zombie: no leader was elected")
	}
}

// newest records elections that the test had not asked for.
func (s *stage) newest() *child {
	for i, c := range s.children {
		for more := true; more; {
			select {
			case s.tokens[i] = <-c.leads:
			default:
				more = false
			}
		}
	}
	if s.tokens[1] > s.tokens[0] {
		return s.children[1]
	}
	return s.children[0]
}

// turn lets a leader claim and write, frozen before the step at of both, and another one
// meanwhile. It reports whether the leader came to that step.
func (s *stage) turn(r *Result, at, value int64) (frozen bool) {
	s.t.Helper()
	older := s.newest()
	newer := s.children[1-older.number]
	token := s.tokens[older.number]
	doing := command{Do: "claim", Token: token, Freeze: at}
	old := s.ask(older, doing)
	if !older.asleep {
		s.note(r, older, old, false)
		doing.Do, doing.Value, doing.Freeze = "write", value, at-old.Steps
		old = s.ask(older, doing)
	}
	if !older.asleep {
		s.note(r, older, old, false)
		return false
	}
	// It is frozen, and another is elected.
	for s.tokens[newer.number] < token {
		select {
		case s.tokens[newer.number] = <-newer.leads:
		case <-time.After(tooLong):
			s.t.Fatalf("zombie: no successor of leader %d, frozen before step %d", older.number, at)
		}
	}
	s.follow(r, newer, older, value+1)
	s.thaw(older)
	s.note(r, older, s.answer(older), true)
	if doing.Do == "claim" { // it has not heard, and writes as it was about to
		s.note(r, older, s.ask(older, command{Do: "write", Token: token, Value: value, Freeze: -1}), true)
	}
	return true
}

// follow lets the newer leader claim and write. If that takes too long, the older one
// goes on meanwhile: it may have what the newer one waits for.
func (s *stage) follow(r *Result, newer, older *child, value int64) {
	s.t.Helper()
	late := time.AfterFunc(s.cfg.Wait, func() {
		_ = older.cmd.Process.Signal(syscall.SIGCONT)
	})
	token := s.tokens[newer.number]
	s.note(r, newer, s.ask(newer, command{Do: "claim", Token: token, Freeze: -1}), false)
	s.note(r, newer, s.ask(newer, command{Do: "write", Token: token, Value: value, Freeze: -1}), false)
	if !late.Stop() {
		r.Waited++
	}
}

// note records what a leader has done.
func (s *stage) note(r *Result, c *child, a answer, woken bool) {
	for _, o := range a.Operations {
		o.Leader = c.number
		r.History = append(r.History, o)
		switch {
		case !woken || o.Kind == Read:
		case o.Outcome == Stale:
			r.Refused++
		case o.Outcome == Unknown:
			r.Unknown++
		case o.Kind == Write:
			r.Overtook++
		}
	}
}

// ask tells a leader what to do, and returns its answer, or records that it was frozen.
func (s *stage) ask(c *child, what command) answer {
	s.t.Helper()
	if err := c.in.Encode(what); err != nil {
		s.t.Fatalf("zombie: leader %d has gone: %v", c.number, err)
	}
	if what.Freeze < 0 {
		return s.answer(c)
	}
	looks := time.NewTicker(2 * time.Millisecond)
	defer looks.Stop()
	for deadline := time.Now().Add(tooLong); time.Now().Before(deadline); {
		select {
		case a, ok := <-c.answers:
			if !ok {
				s.t.Fatalf("zombie: leader %d has gone", c.number)
			}
			return a
		case <-looks.C:
			if Stopped(c.cmd.Process.Pid) {
				c.asleep = true
				return answer{}
			}
		}
	}
	s.t.Fatalf("zombie: leader %d neither answers nor is frozen", c.number)
	return answer{}
}

func (s *stage) answer(c *child) answer {
	s.t.Helper()
	select {
	case a, ok := <-c.answers:
		if !ok {
			s.t.Fatalf("zombie: leader %d has gone", c.number)
		}
		return a
	case <-time.After(tooLong):
		s.t.Fatalf("zombie: leader %d does not answer", c.number)
	}
	return answer{}
}

func (s *stage) thaw(c *child) {
	s.t.Helper()
	c.asleep = false
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
}

// Stopped reports whether a process is stopped.
func Stopped(pid int) bool {
	stat, ok := proc.Read(pid)
	return ok && stat.State == 'T'
}
