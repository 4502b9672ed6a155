package electhttp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/electd/elect"
)

// Client asks a server of this package, such as elect agent on the same machine, for a program that stands in no
// election itself. The zero Client with a URL is ready. Any number of goroutines may use it. A Client must not be copied
// after its first use.
//
// Its answers are what the server knew when it answered. Where an action by a former leader would do harm, send the token
// along, to a resource that checks it.
type Client struct {
	URL   string       // such as http://127.0.0.1:4040
	Token string       // of clients that may change something; may be empty
	Now   bool         // Resign and Transfer do not wait for the leader's tenure: see [TooEarly]
	HTTP  *http.Client // nil is http.DefaultClient. A Transport with a DialContext reaches a Unix socket

	mu   sync.Mutex
	keys map[string]holder // of Holder, by path
}

// holder is an answer about a key.
type holder struct {
	tag    string
	leader elect.Leader
}

// maxHolders is how many answers about keys a Client keeps.
const maxHolders = 65_536

// Status is the state of an election, and of the server's participant.
type Status struct {
	Election string        `json:"election"` // URL, without a password
	Name     string        `json:"name"`
	Leader   *elect.Leader `json:"leader"`
	Stale    bool          `json:"stale"` // the back end did not answer: Leader is the last known one
	Cause    string        `json:"cause"` // why nothing better is known
	ID       string        `json:"id"`    // of the participant, as is the rest
	State    string        `json:"state"` // idle, failed, candidate, starting, leader or ending
	Ill      bool          `json:"ill"`
	Aside    Aside         `json:"aside"`
}

// Refusal is an answer of the server other than success, by RFC 9457.
type Refusal struct {
	Status int    `json:"status"`
	Type   string `json:"type"` // docs/http.md lists them
	Detail string `json:"detail"`
}

// Error is one line.
func (r *Refusal) Error() string {
	return fmt.Sprintf("electhttp: %d: %s", r.Status, cmp.Or(r.Detail, http.StatusText(r.Status)))
}

// Elections returns the present states of all elections of the server.
func (c *Client) Elections(ctx context.Context) (all []Status, err error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/elections", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return all, json.NewDecoder(resp.Body).Decode(&all)
}

// Maintenance makes all participants of elect agent stand aside, or stand again. It does not wait.
func (c *Client) Maintenance(ctx context.Context, on bool) error {
	verb := "off"
	if on {
		verb = "on"
	}
	resp, err := c.do(ctx, http.MethodPost, "/v1/maintenance/"+verb, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Status returns the present state.
func (c *Client) Status(ctx context.Context, name string) (s Status, err error) {
	resp, err := c.do(ctx, http.MethodGet, of(name), nil)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// Leads reports whether the server's participant leads, proven when it answered, and its work is active.
func (c *Client) Leads(ctx context.Context, name string) (bool, error) {
	resp, err := c.do(ctx, http.MethodGet, of(name)+"/leader", nil)
	if refused, ok := errors.AsType[*Refusal](err); ok && strings.HasSuffix(refused.Type, string(notLeading)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, resp.Body.Close()
}

// Holder returns who holds a key of a group. If nobody does the error is [elect.ErrNoLeader]. The server is asked each
// time; the Client keeps its answers, so that it need not repeat one that is still right. The metadata must not be
// changed.
func (c *Client) Holder(ctx context.Context, group, key string) (elect.Leader, error) {
	path := "/v1/groups/" + url.PathEscape(group) + "/keys/" + url.PathEscape(key)
	c.mu.Lock()
	known := c.keys[path]
	c.mu.Unlock()
	resp, err := c.send(ctx, http.MethodGet, path, nil, known.tag)
	if refused, ok := errors.AsType[*Refusal](err); ok && known.tag != "" && refused.Status == http.StatusNotModified {
		return known.leader, nil
	} else if ok && strings.HasSuffix(refused.Type, string(noLeader)) {
		return elect.Leader{}, fmt.Errorf("%w: %w", elect.ErrNoLeader, err)
	}
	if err != nil {
		return elect.Leader{}, err
	}
	defer resp.Body.Close()
	var a struct{ Holder elect.Leader }
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return elect.Leader{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || len(c.keys) >= maxHolders {
		c.keys = map[string]holder{}
	}
	c.keys[path] = holder{resp.Header.Get("ETag"), a.Holder}
	return a.Holder, nil
}

// Watch yields the present state and each change, and then one error: that of the connection, or the cause of ctx. A
// slow caller misses all but the last. To go on after an error call it again.
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		resp, err := c.do(ctx, http.MethodGet, of(name)+"/watch", nil)
		if err != nil {
			yield(Status{}, err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			text, is := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !is {
				continue
			}
			var s Status
			err := json.Unmarshal(text, &s)
			if !yield(s, err) || err != nil {
				return
			}
		}
		yield(Status{}, cmp.Or(context.Cause(ctx), lines.Err(), io.ErrUnexpectedEOF))
	}
}

// Resign asks the leader with that token, or any leader if it is 0, to resign. Before the leader's tenure, and without
// Now, that is a [Refusal] whose Type ends with too-early.
func (c *Client) Resign(ctx context.Context, name string, token elect.Token) error {
	return c.order(ctx, name, "/resign", c.orderFor("", token))
}

// Transfer is Resign in favour of the candidate with the id to, or of the best one if to is empty.
func (c *Client) Transfer(ctx context.Context, name string, token elect.Token, to string) error {
	return c.order(ctx, name, "/transfer", c.orderFor(to, token))
}

// Pause makes the participant of elect agent stand aside, and Resume stand again.
func (c *Client) Pause(ctx context.Context, name string) error {
	return c.order(ctx, name, "/pause", nil)
}

// Resume ends Pause.
func (c *Client) Resume(ctx context.Context, name string) error {
	return c.order(ctx, name, "/resume", nil)
}

func (c *Client) orderFor(to string, token elect.Token) map[string]any {
	m := map[string]any{}
	if c.Now {
		m["now"] = true
	}
	if to != "" {
		m["to"] = to
	}
	if token != 0 {
		m["token"] = token.String()
	}
	return m
}

func (c *Client) order(ctx context.Context, name, verb string, body map[string]any) error {
	resp, err := c.do(ctx, http.MethodPost, of(name)+verb, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// of is the path of an election.
func of(name string) string { return "/v1/elections/" + url.PathEscape(name) }

func (c *Client) do(ctx context.Context, method, path string, body map[string]any) (*http.Response, error) {
	return c.send(ctx, method, path, body, "")
}

// send sends a request, for another answer than that with the tag. It returns a *Refusal for a status other than 200.
func (c *Client) send(ctx context.Context, method, path string, body map[string]any, tag string) (*http.Response, error) {
	text, _ := json.Marshal(body) // strings and a truth value
	if body == nil {
		text = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if text != nil {
		r.Header.Set("Content-Type", jsonType)
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	resp, err := cmp.Or(c.HTTP, http.DefaultClient).Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	refused := &Refusal{}
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(refused) // another server may have answered
	refused.Status = resp.StatusCode
	return nil, refused
}
