//go:build linux && cgo

package leases_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

// workers are candidates of one election, each in a process of its own. The work of a leader stamps a
// ledger and writes to a guarded register, and the judge of test/chaos decides by both.
type workers struct {
	t       *testing.T
	dir     string
	history *judge.History
	ledger  *lives.Ledger
	all     map[int]*exec.Cmd
	faults  int
	program string                // of a worker; "": this one
	env     []string              // of workers, beside this process's own
	judged  func(r *judge.Report) // what becomes of the verdict; nil: a violation fails the test
}

// The environment of a worker.
const (
	envDir      = "LEASES_DIR"
	envNode     = "LEASES_NODE"
	envElection = "LEASES_ELECTION"
	envDeaf     = "LEASES_DEAF" // a mistake to be found: its work asks once whether it leads, and not again
)

// work makes this process a worker if it was started as one.
func work() {
	if os.Getenv(envDir) == "" {
		return
	}
	if err := compete(os.Getenv(envDir), os.Getenv(envNode)); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func compete(dir, number string) error {
	node, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	ledger, err := lives.Open(filepath.Join(dir, judge.LedgerFile))
	if err != nil {
		return err
	}
	client, err := register.Open(dir, register.Name("n"+number))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", node)
	flight := "?"
	if strings.Contains(os.Getenv(envElection), "?") {
		flight = "&"
	}
	flight += "flight=" + url.QueryEscape(filepath.Join(dir, "flight", "n"+number))
	var election *elect.Election
	for election == nil { // its server may be down
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		election, err = elect.Openers(openers).Open(ctx, os.Getenv(envElection)+flight, "e", elect.Config{ID: "n" + number, Logger: log})
		cancel()
		if driver.IsPermanent(err) {
			return err
		}
	}
	deaf := os.Getenv(envDeaf) != ""
	return election.Lead(context.Background(), func(ctx context.Context, term *elect.Term) error {
		if term.Check() != nil {
			return nil
		}
		start := ledger.Now()
		slot := ledger.Begin(lives.Life{Token: int64(term.Token()), Node: node, Kind: lives.Library, Start: start})
		ticks := time.NewTicker(2 * time.Millisecond)
		defer ticks.Stop()
		done := ctx.Done()
		if deaf {
			late, end := context.WithCancel(context.WithoutCancel(ctx))
			context.AfterFunc(ctx, func() { time.AfterFunc(5*time.Second, end) })
			done = late.Done()
		}
		for n := 0; ; n++ {
			at := ledger.Now() // before Check, which holds at that time then
			if !deaf && term.Check() != nil {
				return nil
			}
			slot.StampAt(0, at)
			if n%10 == 0 {
				_, _ = client.Write(ctx, term.Token(), fmt.Sprintf("n%d/%d/%d", node, start, n)) // its log has the outcome
			}
			select {
			case <-ticks.C:
			case <-done:
				return nil
			}
		}
	})
}

// newWorkers begins a run, which is judged when the test ends.
func newWorkers(t *testing.T) *workers {
	t.Helper()
	w := &workers{t: t, dir: t.TempDir(), all: map[int]*exec.Cmd{}}
	server, err := register.Serve(filepath.Join(w.dir, register.Socket))
	if err != nil {
		t.Fatal(err)
	}
	if w.history, err = judge.NewHistory(w.dir); err != nil {
		t.Fatal(err)
	}
	if w.ledger, err = lives.Open(filepath.Join(w.dir, judge.LedgerFile)); err != nil {
		t.Fatal(err)
	}
	w.history.Add(judge.Event{Kind: judge.Run, Node: judge.NoNode, Nodes: 3, Wall: time.Now(), Material: []string{judge.Writes}})
	t.Cleanup(func() {
		for node := range w.all {
			w.kill(node)
		}
		w.history.Add(judge.Event{Kind: judge.Over, Node: judge.NoNode})
		if err := w.history.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		report, err := judge.Judge(w.dir, judge.Options{})
		if err != nil {
			t.Error(err)
		}
		if w.judged != nil {
			w.judged(&report)
			report.Violations = nil
		}
		for _, v := range report.Violations {
			t.Errorf("%v after the beginning: %s: %s", time.Duration(v.At-report.From).Round(time.Millisecond), v.Check, v.Text)
		}
		t.Logf("%d terms, %d writes, of which %d were late and refused; a leader for %.0f %% of the time", report.Elections, report.Ops, report.StaleRefused, 100*report.Availability)
		_ = w.ledger.Close()
	})
	return w
}

// start starts a worker.
func (w *workers) start(node int, election string) {
	w.t.Helper()
	cmd := exec.Command(cmp.Or(w.program, os.Args[0]))
	cmd.Env = append(append(os.Environ(), w.env...), envDir+"="+w.dir, fmt.Sprintf("%s=%d", envNode, node), envElection+"="+election)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(filepath.Join(w.t.ArtifactDir(), fmt.Sprintf("worker-%d.log", node)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.all[node] = cmd
	w.history.Add(judge.Event{Kind: judge.Start, Node: node, Pid: cmd.Process.Pid})
}

func (w *workers) kill(node int) {
	_ = w.all[node].Process.Kill()
	_ = w.all[node].Wait()
	if status, ok := w.all[node].ProcessState.Sys().(syscall.WaitStatus); ok && status.Exited() {
		w.t.Errorf("n%d has ended by itself, with %d; its log tells why", node, status.ExitStatus())
	}
	w.history.Add(judge.Event{Kind: judge.End, Node: node, Pid: w.all[node].Process.Pid, Text: "killed"})
	delete(w.all, node)
}

// leader waits for a stamp that is made after this call, and returns whose it is.
func (w *workers) leader() lives.Life {
	w.t.Helper()
	from := w.ledger.Now()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		for _, l := range w.ledger.Since(w.ledger.Len() - 10) {
			if l.Last > from {
				return l
			}
		}
	}
	w.t.Fatal("nobody leads")
	return lives.Life{}
}

// during makes a fault, and its end if that is not nil, when a leader has led beside it for a time. It
// prints how long nobody led, and returns the leaders before and after.
func (w *workers) during(fault string, begin, end func(), lasts time.Duration) (before, after lives.Life) {
	w.t.Helper()
	w.faults++
	before = w.leader()
	w.history.Add(judge.Event{Kind: judge.Fault, Node: judge.NoNode, ID: w.faults, Fault: fault})
	begin()
	<-time.After(lasts)
	if end != nil {
		end()
	}
	w.history.Add(judge.Event{Kind: judge.Heal, Node: judge.NoNode, ID: w.faults})
	after = w.leader()
	if after.Token == before.Token {
		w.t.Logf("%s: n%d kept its term", fault, before.Node)
		return before, after
	}
	before = w.ledger.Since(before.Number)[0]
	w.t.Logf("%s: n%d after n%d; nobody led for %v", fault, after.Node, before.Node, time.Duration(after.Start-before.Last).Round(time.Millisecond))
	return before, after
}
