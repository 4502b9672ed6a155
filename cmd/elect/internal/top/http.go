package top

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/redact"
)

// IsHTTP reports whether a source is a participant over HTTP.
func IsHTTP(source string) bool {
	return strings.HasPrefix(source, "unix:") || strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}

const (
	askTime    = 5 * time.Second // of one request
	maxAnswer  = 1 << 20         // bytes
	maxLine    = 64 << 10        // bytes
	watchPause = time.Second     // between two tries to watch
)

// Participant is a participant whose HTTP is asked.
type Participant struct {
	address string
	base    string
	client  *http.Client
}

// NewParticipant checks an address: unix:PATH, or http://HOST:PORT or https://HOST:PORT, either with a prefix of all
// paths.
func NewParticipant(address string) (*Participant, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	p := &Participant{address: address, client: &http.Client{Transport: t}}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return nil, errors.New("unix: names no socket; want unix:PATH")
		}
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		p.base = "http://localhost"
		return p, nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, fmt.Errorf("%s does not parse; want http://HOST:PORT, such as http://127.0.0.1:4040, or unix:PATH", hostOf(address))
	case u.User != nil || strings.Contains(address, "@"): // a password with a ? or a # looks like a query
		return nil, fmt.Errorf("%s has a user; want it without one", hostOf(address))
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, fmt.Errorf("%s has a query or a fragment; want http://HOST:PORT, such as http://127.0.0.1:4040", hostOf(address))
	}
	p.base = strings.TrimSuffix(address, "/")
	return p, nil
}

// hostOf names an address over HTTP that is refused, without what may be a secret: all but its scheme and its host.
func hostOf(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return scheme + "://…@" + u.Host
	}
	if strings.Contains(rest, "@") {
		return scheme + "://…"
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return scheme + "://" + rest
}

// Follow asks at an interval, and whenever something has changed, until ctx ends.
func (p *Participant) Follow(ctx context.Context, every time.Duration, report func(Report)) {
	changed := make(chan struct{}, 1)
	var name atomic.Value // a string
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r := p.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		report(r)
		if len(r.Seen) > 0 && name.Swap(r.Seen[0].Name) == nil {
			watch.Go(func() { p.watch(ctx, &name, changed) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

// get asks for a path. The caller closes the body.
func (p *Participant) get(ctx context.Context, path, accept string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", accept)
	a, err := p.client.Do(q)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // its text repeats the address
	}
	if err == nil && a.StatusCode != http.StatusOK {
		a.Body.Close()
		return nil, fmt.Errorf("GET %s: status %d; want that of elect run --http", path, a.StatusCode)
	}
	return a, err
}

// ask asks once.
func (p *Participant) ask(ctx context.Context) Report {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer within %v", askTime))
	defer cancel()
	var text []byte
	a, err := p.get(ctx, "/v1/elections", "application/json")
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(a.Body, maxAnswer))
		a.Body.Close()
	}
	r := Report{Source: p.address, At: time.Now(), Whole: true}
	if err == nil {
		r.Seen, err = decode(p.address, text)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if r.Err = err; err != nil {
		r.Seen, r.Whole = nil, false
	}
	return r
}

// watch reports that there was an event, and not which: the next answer is newer than the event.
func (p *Participant) watch(ctx context.Context, name *atomic.Value, changed chan<- struct{}) {
	for ctx.Err() == nil {
		a, err := p.get(ctx, "/v1/elections/"+url.PathEscape(name.Load().(string))+"/watch", "text/event-stream")
		if err == nil {
			lines := bufio.NewScanner(a.Body)
			lines.Buffer(nil, maxLine)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data:") {
					select {
					case changed <- struct{}{}:
					default:
					}
				}
			}
			a.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// decode reads the answer of /v1/elections.
func decode(source string, text []byte) ([]Seen, error) {
	var views []struct {
		Election string        `json:"election"`
		Name     string        `json:"name"`
		Leader   *elect.Leader `json:"leader"`
		Stale    bool          `json:"stale"`
		Cause    string        `json:"cause"`
		ID       string        `json:"id"`
		State    string        `json:"state"`
		Ill      bool          `json:"ill"`
		Health   string        `json:"health"`
		Left     *int64        `json:"lease_left_ms"`
	}
	if err := json.Unmarshal(text, &views); err != nil {
		return nil, fmt.Errorf("the answer is not that of elect run --http: %w", err)
	}
	seen := []Seen{}
	for _, v := range views {
		if driver.CheckName(v.Name) != nil || driver.CheckID(v.ID) != nil || v.Left != nil && max(*v.Left, -*v.Left) > maxLease {
			return nil, errors.New("the answer is not that of elect run --http: want a name, an id and a lease_left_ms that is possible")
		}
		n := Node{ID: v.ID, Source: source, State: cli.OneLine(v.State), Ill: v.Ill, Lease: v.Left}
		switch {
		case v.Ill:
			n.Health = "ill"
		case v.Health == "well":
			n.Health = v.Health
		}
		n.Leads = v.State == "leader" && (v.Left == nil || *v.Left > 0)
		n.Ready = (v.State == "leader" || v.State == "candidate") && v.Leader != nil && !v.Stale
		if n.Leads && v.Leader != nil && v.Leader.ID == v.ID {
			n.Token = v.Leader.Token
		}
		seen = append(seen, Seen{
			Key: KeyOf(v.Election, v.Name), Nodes: []Node{n},
			State: &State{Leader: v.Leader, Stale: v.Stale, Cause: cli.OneLine(v.Cause)},
		})
	}
	return seen, nil
}

// maxLease bounds what is believed of a lease, in milliseconds.
const maxLease = 1000 * 24 * 3600 * 1000

// Shown is an argument without a password, which the part before an @ may contain.
func Shown(arg string) string {
	u, err := url.Parse(arg)
	if err != nil {
		return "an argument"
	}
	return redact.Without(u).String()
}
