//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/peer"
)

// account counts what one source tells of one participant, by event and reason, such as "lost resigned".
type account map[string]int

// logLine is one line of a log in JSON.
type logLine struct{ Event, Reason, Token string }

// logLines reads a log.
func logLines(t *testing.T, log string) (all []logLine) {
	t.Helper()
	for text := range strings.Lines(log) {
		var l logLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if l.Event != "" {
			all = append(all, l)
		}
	}
	return all
}

// scraped reads the counters of a participant, and what it tells of hooks.
func scraped(t *testing.T, page string) account {
	t.Helper()
	all := account{}
	for text := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(text), " ")
		name = strings.Replace(name, `election="job",`, "", 1)
		reason, isEnd := strings.CutPrefix(name, `elect_step_downs_total{reason="`)
		switch {
		case isEnd:
			name = "lost " + strings.TrimSuffix(reason, `"}`)
		case name == `elect_elections_total{result="won"}`:
			name = "elected"
		case name == `elect_stop_overrun_total{election="job"}`:
			name = "overrun"
		case name == `elect_hook_duration_seconds_count{hook="prepare"}`:
			name = "prepare"
		default:
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if n > 0 {
			all[name] = n
		}
	}
	return all
}

// TestVocabularyOfTerms: of the same terms the log of elect run, OnEvent of a program, the metrics of both and elect
// history tell the same, with the same words and tokens. The terms end by a transfer, by the end of the work, by illness,
// by an expiry and by the end of a program. TestVocabulary of the runner has all reasons.
func TestVocabularyOfTerms(t *testing.T) {
	long.Test(t, "it leads in turns among three peers, one of which is stopped beyond its lease")
	env := environment(t)
	for _, variable := range env { // where the certificates are that peers of one machine share
		if name, value, _ := strings.Cut(variable, "="); name == "XDG_STATE_HOME" || name == "HOME" {
			t.Setenv(name, value)
		}
	}
	dir, peers := t.TempDir(), harness.FreePeers(t, 3)
	run := func(args ...string) (string, error) {
		cmd := exec.Command("elect", append(args[:1:1], append([]string{"--election", peers}, args[1:]...)...)...)
		cmd.Env = env
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("elect %q: %w: %s", args, err, &errs)
		}
		return string(out), err
	}

	// Two are elect run. Their prepare command fails, and their work says that it is ready.
	type command struct {
		id, http string
		cmd      *exec.Cmd
		log      harness.Buffer
	}
	var commands []*command
	for _, id := range []string{"n1", "n2"} {
		c := &command{id: id, http: harness.FreeAddr(t)}
		c.cmd = exec.Command("elect", "run", "--election", peers, "--name", "job", "--id", id, "--data", filepath.Join(dir, id), "--http", c.http,
			"--log-format", "json", "--restart", "always", "--wait-ready", "1m", "--prepare", "exit 1",
			"--health-command", "test ! -e "+filepath.Join(dir, "ill-"+id), "--health-every", "100ms",
			"--", "sh", "-c", `tell READY=1; echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000`, filepath.Join(dir, "work-"+id))
		c.cmd.Env, c.cmd.Stderr, c.cmd.Stdout = env, &c.log, os.Stderr
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			harness.End(c.cmd)
			if t.Failed() {
				t.Logf("%s:\n%s", id, &c.log)
			}
		})
		commands = append(commands, c)
	}
	count := func(c *command, event string) (n int) {
		for _, l := range logLines(t, c.log.String()) {
			if l.Event == event {
				n++
			}
		}
		return n
	}

	// The third is a program.
	metrics := electprom.New("job")
	var mu sync.Mutex
	events, tokens := account{}, map[string]bool{}
	program, err := elect.Openers{peerScheme: openPeer}.Open(t.Context(), peers+"?data="+filepath.Join(dir, "n3"), "job", elect.Config{ID: "n3", OnEvent: func(e elect.Event) {
		metrics.OnEvent(e)
		mu.Lock()
		defer mu.Unlock()
		switch loss, _ := errors.AsType[*elect.LostError](e.Err); e.Kind {
		case elect.EventElected:
			events["elected"]++
			tokens[e.Token.String()] = true
		case elect.EventEnded:
			events["lost "+string(loss.Reason)]++
		case elect.EventOverrun:
			events["overrun"]++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	metrics.Attach(program)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			_ = program.Lead(ctx, func(ctx context.Context, _ *elect.Term) error { <-ctx.Done(); return nil })
		}
	})
	t.Cleanup(func() {
		stop()
		working.Wait()
		metrics.Close()
		_ = program.Close()
	})

	leader := func() string {
		out, err := run("status", "job", "-o", "json")
		var status struct{ Leader *struct{ ID string } }
		if err != nil || json.Unmarshal([]byte(out), &status) != nil || status.Leader == nil {
			return ""
		}
		return status.Leader.ID
	}
	works := func(c *command) { // and has said so
		t.Helper()
		harness.Eventually(t, "the work of "+c.id+" is ready in each term", func() bool {
			return leader() == c.id && count(c, "ready") == count(c, "elected")
		})
	}
	transfer := func(to string) {
		t.Helper()
		var err error
		harness.Eventually(t, to+" leads", func() bool {
			if leader() == to {
				return true
			}
			_, err = run("transfer", "--to", to, "job")
			return false
		})
		if err != nil {
			t.Logf("the last transfer to %s: %v", to, err)
		}
	}
	n1, n2 := commands[0], commands[1]
	harness.Eventually(t, "somebody leads", func() bool { return leader() != "" })

	transfer("n1")
	works(n1)
	text, err := os.ReadFile(filepath.Join(dir, "work-n1"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	before := count(n1, "lost")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the term has ended with its work", func() bool { return count(n1, "lost") > before })
	transfer("n3")
	transfer("n1")
	works(n1)
	if err := n1.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // its keeper goes on
		t.Fatal(err)
	}
	harness.Eventually(t, "another one leads", func() bool { l := leader(); return l != "" && l != "n1" })
	if err := n1.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	transfer("n2")
	works(n2)
	if err := os.WriteFile(filepath.Join(dir, "ill-n2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "n2 gives way", func() bool { l := leader(); return l != "" && l != "n2" })
	transfer("n3")
	stop() // the program ends its work, and the peer goes on
	working.Wait()
	harness.Eventually(t, "another one leads", func() bool { l := leader(); return l != "" && l != "n3" })

	history := func() (by map[string]account, of map[string]map[string]bool) {
		out, err := run("history", "job", "-o", "json")
		var all []peer.Event
		if err == nil {
			err = json.Unmarshal([]byte(out), &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		by, of = map[string]account{}, map[string]map[string]bool{}
		for _, e := range all {
			if by[e.Leader] == nil {
				by[e.Leader], of[e.Leader] = account{}, map[string]bool{}
			}
			reason, _, _ := strings.Cut(e.Reason, ":")
			switch e.Event {
			case "elected":
				by[e.Leader]["elected"]++
				of[e.Leader][e.Token.String()] = true
			case "lost":
				by[e.Leader]["lost "+reason]++
			}
		}
		return by, of
	}
	// Events come one after the other: a line before its counter, and a history that is asked for between the two.
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(last)
		}
	})
	harness.Eventually(t, "all tell the same", func() bool {
		by, of := history()
		for _, c := range commands {
			logged, led, ready := account{}, map[string]bool{}, map[string]bool{}
			for _, l := range logLines(t, c.log.String()) {
				switch l.Event {
				case "elected", "overrun":
					logged[l.Event]++
					led[l.Token] = true
				case "lost":
					logged["lost "+l.Reason]++
				case "ready":
					if ready[l.Token] || !led[l.Token] {
						t.Fatalf("%s: ready in term %s, which is said once, after the victory", c.id, l.Token)
					}
					ready[l.Token] = true
				case "not-prepared":
					logged["prepare"]++
				}
			}
			answer, err := http.Get("http://" + c.http + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			measured := scraped(t, string(page))
			if measured["prepare"] < logged["prepare"] || logged["prepare"] == 0 || len(ready) == 0 {
				last = fmt.Sprintf("%s: prepare has run %d times and failed %d times, and %d terms were ready; want some, and no more failures than runs", c.id, measured["prepare"], logged["prepare"], len(ready))
				return false
			}
			delete(measured, "prepare") // one that has ended with the wait for a term has not failed
			delete(logged, "prepare")
			kept := maps.Clone(by[c.id])
			if n := logged["overrun"]; n > 0 { // no node has a history of overruns
				kept["overrun"] = n
			}
			if last = fmt.Sprintf("%s: the log has %v, terms %v; the metrics %v; the history %v, terms %v", c.id, logged, led, measured, kept, of[c.id]); !maps.Equal(logged, measured) || !maps.Equal(logged, kept) || !maps.Equal(led, of[c.id]) {
				return false
			}
			t.Log(last)
		}
		w := httptest.NewRecorder()
		registry := prometheus.NewRegistry()
		registry.MustRegister(metrics)
		metricsHandler(registry).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		measured := scraped(t, w.Body.String())
		mu.Lock()
		defer mu.Unlock()
		last = fmt.Sprintf("n3: OnEvent has told %v, terms %v; the metrics have %v, and the history %v, terms %v", events, tokens, measured, by["n3"], of["n3"])
		t.Log(last)
		return maps.Equal(events, measured) && maps.Equal(events, by["n3"]) && maps.Equal(tokens, of["n3"])
	})
	by, _ := history()
	for id, word := range map[string]string{"n1": "lost expired", "n2": "lost unhealthy", "n3": "lost shutdown"} {
		if by[id][word] == 0 {
			t.Errorf("%s has %v; want %s among it", id, by[id], word)
		}
	}
}
