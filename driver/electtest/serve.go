//go:build unix

package electtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// Serve makes this process a participant if [Spawn] started it, and exits when its parent closes
// the connection; otherwise it returns at once. Call it first in TestMain, with the openers of the
// back ends under test by scheme.
func Serve(openers map[string]driver.Opener) {
	if os.Getenv(participantEnv) == "" {
		return
	}
	s := &server{openers: openers, out: json.NewEncoder(os.Stdout), calls: map[uint64]context.CancelFunc{}, mandates: map[fence.Token]driver.Mandate{}}
	in := json.NewDecoder(os.Stdin)
	for {
		var q request
		if err := in.Decode(&q); err != nil {
			os.Exit(0)
		}
		s.take(q)
	}
}

// server is the remote end of Spawn.
type server struct {
	openers map[string]driver.Opener
	elector driver.Elector // set by the first request, before any other is sent

	sending sync.Mutex
	out     *json.Encoder

	mu       sync.Mutex
	calls    map[uint64]context.CancelFunc
	mandates map[fence.Token]driver.Mandate
}

// take starts a request in a goroutine of its own, or cancels one.
func (s *server) take(q request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Op == "cancel" {
		if cancel := s.calls[q.Other]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.calls[q.Call] = cancel
	go func() {
		r := s.handle(ctx, q)
		r.Call = q.Call
		s.send(r)
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, q.Call)
	}()
}

func (s *server) send(r reply) {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.out.Encode(r) != nil {
		os.Exit(0) // the parent has gone
	}
}

func (s *server) mandate(t fence.Token) driver.Mandate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mandates[t]
}

func (s *server) handle(ctx context.Context, q request) (r reply) {
	switch q.Op {
	case "open":
		r.set(s.open(ctx, q))
		if r.Err == "" {
			l := s.elector.Limits()
			r.Limits = &l
		}
		return r
	case "close":
		r.set(s.elector.Close())
		return r
	case "campaign":
		m, err := s.elector.Campaign(ctx, *q.Cand)
		if err != nil {
			r.set(err)
			return r
		}
		r.Token = m.Token()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mandates[r.Token] = m
		return r
	case "observe":
		for st, err := range s.elector.Watch(ctx) {
			if err != nil {
				r.set(err)
				return r
			}
			more := reply{Call: q.Call, More: true, State: &st}
			more.set(st.Cause)
			s.send(more)
		}
		return r
	case "resign":
		rc, ok := s.elector.(driver.Resigner)
		if !ok {
			r.set(driver.ErrUnsupported)
			return r
		}
		r.set(rc.Resign(ctx, q.Token))
		return r
	case "appoint":
		a, ok := s.elector.(driver.Transferrer)
		if !ok {
			r.set(driver.ErrUnsupported)
			return r
		}
		r.set(a.Transfer(ctx, q.Token, q.To))
		return r
	}
	m := s.mandate(q.Token)
	if m == nil {
		r.set(fmt.Errorf("%s: no mandate with token %v", q.Op, q.Token))
		return r
	}
	switch q.Op {
	case "check":
		r.set(m.Check())
	case "remaining":
		r.Left, r.Bounded = m.Remaining()
	case "release":
		r.set(m.Release(ctx))
	case "confirm":
		if c, ok := m.(driver.Confirmer); ok {
			r.set(c.Confirm(ctx))
			return r
		}
		r.set(driver.ErrUnsupported)
	case "transfer":
		if t, ok := m.(driver.MandateTransferrer); ok {
			r.set(t.Transfer(ctx, q.To))
			return r
		}
		r.set(driver.ErrUnsupported)
	case "eligible":
		if t, ok := m.(driver.MandateTransferrer); ok {
			r.set(t.Eligible(q.To))
			return r
		}
		r.set(driver.ErrUnsupported)
	case "metadata":
		if t, ok := m.(driver.MetadataSetter); ok {
			r.set(t.SetMetadata(ctx, q.Cand.Metadata))
			return r
		}
		r.set(driver.ErrUnsupported)
	case "ended":
		<-m.Context().Done()
		r.set(context.Cause(m.Context()))
	default:
		r.set(fmt.Errorf("unknown operation %q", q.Op))
	}
	return r
}

func (s *server) open(ctx context.Context, q request) error {
	u, err := url.Parse(q.URL)
	if err != nil {
		return err
	}
	open := s.openers[u.Scheme]
	if open == nil {
		return errors.New("Serve has no opener for " + u.Scheme)
	}
	s.elector, err = open(ctx, driver.Target{URL: u, Name: q.Name, ID: q.ID})
	return err
}
