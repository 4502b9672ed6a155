//go:build unix

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/runtime"
)

// vocabulary returns the words in the table of docs/operating.md.
func vocabulary(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| event | ")
	table, _, _ = strings.Cut(table, "\n\n")
	var words []string
	for row := range strings.SplitSeq(table, "\n") {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cell, -1) {
			words = append(words, m[1])
		}
	}
	slices.Sort(words)
	return words
}

// brief is an election whose mandates end at once, for a reason.
type brief struct {
	failing
	cause error
}

func (f brief) Campaign(context.Context, driver.Candidacy) (driver.Mandate, error) {
	ctx, end := context.WithCancelCause(context.Background())
	end(f.cause)
	return ended{ctx}, nil
}

type ended struct{ ctx context.Context }

func (ended) Token() elect.Token               { return 7 }
func (m ended) Context() context.Context       { return m.ctx }
func (ended) Remaining() (time.Duration, bool) { return 0, false }
func (ended) Check() error                     { return nil }
func (ended) Release(context.Context) error    { return nil }

// TestReasonsHaveOneWord: the end of a term has the same word in the history of peers as in a LostError, and so in logs
// and metrics.
func TestReasonsHaveOneWord(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range []protocol.Reason{protocol.Lapsed, protocol.ClockJump, protocol.Withdrawn, protocol.Unhealthy, protocol.Shutdown, protocol.Paused, protocol.Recalled, quorum.QuorumLost, quorum.Superseded, quorum.Transferred} {
		e, err := elect.New(brief{cause: &runtime.Ended{Reason: r}}, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		term, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-term.Context().Done()
		loss, _ := errors.AsType[*elect.LostError](context.Cause(term.Context()))
		word, _, _ := strings.Cut(r.Text(), ":")
		if seen[word] = true; string(loss.Reason) != word {
			t.Errorf("%s: LostError has %q, and the history %q", r, loss.Reason, word)
		}
		_ = term.Release(t.Context())
		_ = e.Close()
	}
	if len(seen) != 6 {
		t.Errorf("saw the words %v; want 6", seen)
	}
}

// TestVocabulary: each event in the log is in the table of the documentation, and log and metrics count the same
// events, with the same reasons.
func TestVocabulary(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	metrics := electprom.New("job")
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	events := map[string]float64{} // by the words of the log
	synctest.Test(t, func(t *testing.T) {
		election, err := elect.New(failing{}, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		handler, err := electhttp.New(electhttp.Config{Name: "job", ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		r := &run{cfg: Config{Name: "job", ID: "a", Args: []string{"work"}, JSON: true, Wait: NoLimit, HTTP: &HTTP{Handler: handler, Metrics: metrics}}, say: lines.New(out, lines.Form{JSON: true}), election: election, life: t.Context(), contain: new(supervise.Containment)}
		defer r.say.Close()
		defer handler.Close()
		token := elect.Token(0)
		emit := func(kind elect.EventKind, err error) {
			r.event(elect.Event{Kind: kind, At: time.Now(), Token: token, Err: err})
			reason := ""
			if loss, ok := errors.AsType[*elect.LostError](err); ok && kind == elect.EventEnded {
				reason = string(loss.Reason)
			}
			events[string(kind)+" "+reason]++
		}
		defer r.stopStandby()
		emit(elect.EventWell, nil)
		for i, c := range []struct {
			reason  elect.Reason
			cause   error
			outcome *outcome // of the command
			overrun bool     // by the election
		}{
			{elect.ReasonExpired, fmt.Errorf("%w: not renewed", driver.ErrExpired), &outcome{loss: new(elect.LostError)}, true},
			{elect.ReasonSuperseded, driver.ErrSuperseded, &outcome{loss: new(elect.LostError), late: time.Second}, true},
			{elect.ReasonExpired, driver.ErrExpired, &outcome{loss: new(elect.LostError), late: time.Second}, false},
			{elect.ReasonResigned, driver.ErrResigned, &outcome{}, false},
			{elect.ReasonResigned, driver.ErrResigned, nil, false},
			{elect.ReasonStoreUnreachable, driver.ErrUnreachable, nil, false},
			{elect.ReasonUnhealthy, errors.New("ill"), nil, false},
			{elect.ReasonShutdown, errStopped, nil, false},
		} {
			emit(elect.EventCampaigning, nil)
			emit(elect.EventFailed, errors.New("no disk"))
			token = elect.Token(i + 1)
			emit(elect.EventElected, nil)
			r.leading(token)
			r.mu.Lock()
			r.outcome = c.outcome
			r.mu.Unlock()
			loss := &elect.LostError{Reason: c.reason, Token: token, Err: c.cause}
			emit(elect.EventEnded, loss)
			if c.overrun {
				emit(elect.EventOverrun, loss)
			} else if c.outcome != nil && c.outcome.late > 0 {
				events["overrun "]++ // which the keeper has seen
			}
			emit(elect.EventReleased, nil)
			emit(elect.EventIll, errors.New("no disk"))
			emit(elect.EventWell, nil)
		}
		r.event(elect.Event{Kind: elect.EventReleased, Token: token, Err: errors.New("unreachable")})
		time.Sleep(glance) // standing by is told
	})

	logged := map[string]float64{}
	known := vocabulary(t)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Event, Reason, Level, Time, Msg, Election, ID string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time == "" || l.Level == "" || l.Msg == "" || l.Election != "job" || l.ID != "a" {
			t.Errorf("%v: %s", err, line)
		}
		if !slices.Contains(known, l.Event) {
			t.Errorf("the event %q is not in docs/operating.md: %s", l.Event, line)
		}
		logged[l.Event+" "+l.Reason]++
	}
	for _, word := range []string{"campaigning ", "campaign-failed "} { // they have no line
		if !slices.Contains(known, strings.TrimSpace(word)) || logged[word] != 0 {
			t.Errorf("%s: %v lines; want none, and a place in the table", word, logged[word])
		}
	}
	own := []elect.EventKind{eventFailed, eventFinished, eventHook, eventHookFailed, eventHookOutput, eventIsolating, eventKilled, eventPaused, eventReloaded, eventResumed, eventUnclean, eventNotReleased, eventNotStarted, eventNotPrepared, eventOpened, eventReady, eventServing, eventStandingAside, eventStandingBy, eventUnguarded}
	for _, word := range own {
		if !slices.Contains(known, string(word)) {
			t.Errorf("the event %q is not in docs/operating.md", word)
		}
		delete(logged, string(word)+" ")
	}
	want := maps.Clone(events)
	delete(want, "campaigning ")
	delete(want, "campaign-failed ")
	if !maps.Equal(logged, want) {
		t.Errorf("the log has %v\nthe events are %v", logged, want)
	}

	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	want = map[string]float64{
		`elections_total{election="job",result="won"}`:    events["elected "],
		`elections_total{election="job",result="failed"}`: events["campaign-failed "],
		`stop_overrun_total{election="job"}`:              events["overrun "],
		`healthy{election="job"}`:                         1,
	}
	for event, n := range events {
		if reason, ok := strings.CutPrefix(event, "lost "); ok {
			want[fmt.Sprintf(`step_downs_total{election="job",reason=%q}`, reason)] = n
		}
	}
	if len(want) != 4+6 {
		t.Errorf("%d reasons were played; want all 6", len(want)-4)
	}
	for sample, n := range want {
		if line := fmt.Sprintf("\nelect_%s %v\n", sample, n); !strings.Contains(w.Body.String(), line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
