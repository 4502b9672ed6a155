package redis

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/electd/elect"
)

// The electors ask each other over the port for clients, by the request ELECT. A connection begins with a nonce of each
// side; then each question and each answer carries the HMAC of the secret over both nonces, its direction, its number,
// and its text. So nobody without the secret can ask, answer, repeat or redirect; the text can be read, unless the port
// speaks TLS.

// question is what an elector asks another one.
type question struct {
	From     string      `json:"from"`
	Op       string      `json:"op"`
	Token    elect.Token `json:"token,omitempty"`
	Decision *Decision   `json:"decision,omitempty"`
	To       string      `json:"to,omitempty"`
}

// The questions.
const (
	opSee      = "see"      // what do you see? Of the acting elector, it says that this one acts
	opPromise  = "promise"  // serve no smaller token
	opAccept   = "accept"   // keep this decision
	opAnnounce = "announce" // tell this decision to clients
	opFailover = "failover" // to the acting elector: hand over to a server
)

// answer is the reply.
type answer struct {
	ID     string          `json:"id"`
	Kept   entries         `json:"kept"`
	Acting string          `json:"acting,omitempty"`
	Down   map[string]Down `json:"down,omitempty"` // the servers that this elector finds down
	Late   map[string]bool `json:"late,omitempty"` // those that have not answered for some time
	Error  string          `json:"error,omitempty"`

	Outsiders int `json:"outsiders,omitempty"` // replicas of the master that are not in servers
}

// seal is one side of a conversation between electors.
type seal struct {
	secret         string
	client, server string // nonces
	number         uint64 // of the question
}

func (s *seal) mac(direction, text string) string {
	h := hmac.New(sha256.New, []byte(s.secret))
	for _, part := range []string{direction, s.client, s.server, strconv.FormatUint(s.number, 10), text} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *seal) right(direction, text, mac string) bool {
	return hmac.Equal([]byte(s.mac(direction, text)), []byte(mac))
}

// colleague is another elector, as this one asks it. Its methods may be called by any number of goroutines; questions
// wait for each other.
type colleague struct {
	entry  ElectorEntry
	self   string
	secret string
	dialer *dialer
	limit  func() time.Duration // of an answer

	turn chan struct{} // holds one value while a question is under way, which owns c and seal
	c    *conn
	seal seal

	last  sync.Mutex // guards what follows
	seen  answer
	heard time.Time // zero: it does not answer
}

// with returns the same elector over a connection of its own, for answers that take up to a limit.
func (p *colleague) with(limit func() time.Duration) *colleague {
	return &colleague{entry: p.entry, self: p.self, secret: p.secret, dialer: p.dialer, limit: limit, turn: make(chan struct{}, 1)}
}

// ask asks, and has the answer, or why there is none.
func (p *colleague) ask(ctx context.Context, q question) (answer, error) {
	q.From = p.self
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	had := p.c != nil
	a, err := p.try(ctx, q)
	// A connection from before may have ended without a word. All questions may be asked twice.
	if err != nil && had && p.c == nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		a, err = p.try(ctx, q)
	}
	p.last.Lock()
	defer p.last.Unlock()
	if err != nil {
		p.heard = time.Time{}
		return a, fmt.Errorf("elector %s: %w", p.entry.ID, err)
	}
	p.seen, p.heard = a, time.Now()
	if a.Error != "" {
		return a, fmt.Errorf("elector %s: %s", p.entry.ID, a.Error)
	}
	return a, nil
}

// latest is the last answer, unless the elector has stopped to answer.
func (p *colleague) latest() (a answer, ok bool) {
	p.last.Lock()
	defer p.last.Unlock()
	return p.seen, !p.heard.IsZero()
}

// forget makes the last answer none: what was seen in an earlier term does not count in this one.
func (p *colleague) forget() {
	p.last.Lock()
	defer p.last.Unlock()
	p.heard = time.Time{}
}

func (p *colleague) try(ctx context.Context, q question) (a answer, err error) {
	defer func() {
		if err != nil && p.c != nil {
			_ = p.c.Close()
			p.c = nil
		}
	}()
	if p.c == nil {
		if p.c, err = p.dialer.open(ctx, p.entry.Address, "elector-"+p.self, p.limit()); err != nil {
			return a, err
		}
		p.seal = seal{secret: p.secret, client: rand.Text()}
		v, err := p.c.one(p.limit(), "ELECT", "HELLO", p.seal.client)
		if err != nil {
			return a, err
		}
		p.seal.server, _ = v.(string)
	}
	c := p.c // p.c is nil by the time that a late call closes it
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	text, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	p.seal.number++
	v, err := c.one(p.limit(), "ELECT", "ASK", string(text), p.seal.mac("question", string(text)))
	if err != nil {
		return a, err
	}
	parts, _ := v.([]any)
	if len(parts) != 2 {
		return a, fmt.Errorf("%w: an answer of %d parts", errProtocol, len(parts))
	}
	body, _ := parts[0].(string)
	mac, _ := parts[1].(string)
	if !p.seal.right("answer", body, mac) {
		return a, errors.New("its answer has another secret; want the same secret-file at all electors")
	}
	return a, json.Unmarshal([]byte(body), &a)
}

func (p *colleague) close() {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if p.c != nil {
		_ = p.c.Close()
		p.c = nil
	}
}
