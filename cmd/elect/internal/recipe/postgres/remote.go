package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/peer/certs"
)

// Status is what a node says about itself.
type Status struct {
	Name string `json:"name"` // of the cluster
	ID   string `json:"id"`
	Role string `json:"role"` // see the roles

	SystemID  uint64 `json:"system_id,string"`
	Promised  uint64 `json:"promised,string"`
	Followed  uint64 `json:"followed,string"` // the term of the last of its WAL
	Timeline  uint32 `json:"timeline"`
	LSN       uint64 `json:"lsn,string"`
	Streaming bool   `json:"streaming"`
	Whole     bool   `json:"whole"`
	Blank     bool   `json:"blank"`
	Paused    bool   `json:"paused"`
	// Waiting is the token of the leader from which it tries to stream, if it does not, and has nothing else to do.
	Waiting uint64 `json:"waiting,string,omitempty"`

	// Of a primary. Token is that of its term, Eras are those of its WAL, History is its history file.
	Token   uint64 `json:"token,string"`
	Eras    []era  `json:"eras,omitempty"`
	History string `json:"history,omitempty"`
	// Confirmed means that it was shown to lead after it was asked.
	Confirmed bool `json:"confirmed,omitempty"`
	// Serving means that clients may write: GET /primary is 200.
	Serving bool `json:"serving"`

	Does string `json:"does,omitempty"` // what it does or waits for
}

// The roles of a Status.
const (
	rolePrimary  = "primary"  // promoted in its own term
	roleLeader   = "leader"   // it leads, and is not yet promoted
	roleReplica  = "replica"  // its server runs, in recovery
	roleStopped  = "stopped"  // its server does not run
	roleStarting = "starting" // it is being copied or rewound
)

// remote is another node. Its methods may be called by any number of goroutines.
type remote interface {
	status(ctx context.Context, confirm bool) (Status, error)
	// prepare returns a *refusal if the node has promised to a greater token.
	prepare(ctx context.Context, token uint64) (answer, error)
}

// refusal is the answer of a node that has promised to a greater token.
type refusal struct{ Promised uint64 }

func (r *refusal) Error() string {
	return fmt.Sprintf("it has promised to the token %d; want a greater one: of an election that was made anew, by its era", r.Promised)
}

// Client asks nodes. Make it with NewClient.
type Client struct {
	name    string // of the cluster
	cluster string // Settings.cluster
	secret  string
	certs   *certs.Identity
	nodes   map[string]NodeEntry
	clients map[string]*http.Client
}

// maxBody bounds a request, and maxAnswer an answer: a status has some 100 bytes for each promotion that there was.
const (
	maxBody   = 256 << 10
	maxAnswer = 16 << 20
)

// NewClient makes a Client with the certificates or the secret of a configuration.
func NewClient(s *Settings, secret string) (*Client, error) {
	c := &Client{name: s.Name, cluster: s.cluster(), secret: secret, nodes: map[string]NodeEntry{}, clients: map[string]*http.Client{}}
	if s.Certs != "" {
		var err error
		if c.certs, err = certs.LoadDir(s.Certs, s.ID); err != nil {
			return nil, err
		}
	}
	for _, e := range s.Nodes {
		c.nodes[e.ID] = e
	}
	c.use(c.certs)
	return c, nil
}

// use makes the connections those of an identity; nil is plain text.
func (c *Client) use(identity *certs.Identity) {
	c.certs = identity
	for id := range c.nodes {
		t := &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext}
		if identity != nil {
			t.TLSClientConfig = identity.Client(id)
		}
		c.clients[id] = &http.Client{Transport: t}
	}
}

// call makes one request to a node.
func (c *Client) call(ctx context.Context, id, method, path string, in, out any) error {
	scheme := "http"
	if c.certs != nil {
		scheme = "https"
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+c.nodes[id].Control+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Elect-Cluster", c.cluster)
	if c.secret != "" {
		req.Header.Set("Authorization", "Bearer "+c.secret)
	}
	res, err := c.clients[id].Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("%s: %w", id, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if res.StatusCode == http.StatusConflict {
		r := &refusal{}
		if json.Unmarshal(text, r) == nil && r.Promised > 0 {
			return r
		}
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", id, res.Status, bytes.TrimSpace(text))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: its answer: %w", id, err)
	}
	return nil
}

// Status asks a node how it is.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	return c.node(id).status(ctx, false)
}

// Switchover asks the primary to hand over, to a node or to the best one. It returns when the primary has begun.
func (c *Client) Switchover(ctx context.Context, primary, to string) error {
	return c.call(ctx, primary, http.MethodPost, "/v1/switchover", map[string]string{"to": to}, nil)
}

// Pause tells a node whether it is paused.
func (c *Client) Pause(ctx context.Context, id string, on bool) error {
	return c.call(ctx, id, http.MethodPost, "/v1/pause", map[string]bool{"on": on}, nil)
}

// one is a node as a Client reaches it.
type one struct {
	c  *Client
	id string
}

func (c *Client) node(id string) remote { return one{c, id} }

func (o one) status(ctx context.Context, confirm bool) (s Status, err error) {
	path := "/v1/status"
	if confirm {
		path += "?confirm=1"
	}
	err = o.c.call(ctx, o.id, http.MethodGet, path, nil, &s)
	if err == nil && (s.ID != o.id || s.Name != o.c.name) {
		err = fmt.Errorf("%s: it says that it is %s of %s; want that node at this address", o.id, s.ID, s.Name)
	}
	return s, err
}

// preparing is the body of a prepare.
type preparing struct {
	Token uint64 `json:"token,string"`
}

func (o one) prepare(ctx context.Context, token uint64) (a answer, err error) {
	err = o.c.call(ctx, o.id, http.MethodPost, "/v1/prepare", preparing{Token: token}, &a)
	if err == nil && a.ID != o.id {
		err = fmt.Errorf("%s: it says that it is %s; want that node at this address", o.id, a.ID)
	}
	return a, err
}

// NewOperator makes a Client that asks as this node does, with what the configuration names.
func NewOperator(s *Settings) (*Client, error) {
	secret, err := s.secret()
	if err != nil {
		return nil, err
	}
	return NewClient(s, secret)
}

// All asks all nodes at once. Nodes that do not answer have their error.
func (c *Client) All(ctx context.Context, s *Settings) (all []Status, errs map[string]error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs = map[string]error{}
	for _, id := range s.ids() {
		wg.Go(func() {
			one, err := c.Status(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[id] = err
				return
			}
			all = append(all, one)
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return all, errs
}

// Primary is the node that is the primary.
func (c *Client) Primary(ctx context.Context, s *Settings) (string, error) {
	all, errs := c.All(ctx, s)
	for _, one := range all {
		if one.Serving {
			return one.ID, nil
		}
	}
	why := errors.New("no node is the primary; want this again when status shows one")
	for _, err := range errs {
		why = errors.Join(why, err)
	}
	return "", why
}
