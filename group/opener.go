package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/placement"
)

// schemePrefix comes before the scheme of the coordinator's election.
const schemePrefix = "group+"

// Opener returns an opener of named elections of a group. It opens URLs with group+ before a scheme of inner, such as
// group+file:/var/lib/elect. The coordinator is elected there, in the election that has the group's name. The elections
// that one Opener opens under one URL and id share a member, from the first one to the last. [elect.Election.As] with a
// **Group returns that member, for its metrics.
//
// Parameters of the group are those of [Config]: group-name, group-listen, group-advertise, group-promise, group-cover,
// group-token-bits, group-zone, group-weight, group-flight, group-insecure=true, and group-rate, which is Rate of
// [placement.Settings]. The others are inner's.
func Opener(inner driver.Opener) driver.Opener { return OpenerWith(inner, nil) }

// NameOf returns the name of the group that a URL names.
func NameOf(u *url.URL) string { return cmp.Or(u.Query().Get("group-name"), defaultName) }

// OpenerWith is [Opener] with what a URL cannot say: configure sets it, such as Config.TLS. It gets the parameters that
// begin with group-, and removes those that it knows.
func OpenerWith(inner driver.Opener, configure func(params url.Values, cfg *Config) error) driver.Opener {
	s := &sharing{inner: inner, configure: configure, all: map[shareKey]*share{}}
	return s.open
}

type sharing struct {
	inner     driver.Opener
	configure func(url.Values, *Config) error

	mu  sync.Mutex
	all map[shareKey]*share
}

type shareKey struct{ url, id string }

// share is a member that several elections use. The channel is closed when it is there, or is known not to be.
type share struct {
	ready chan struct{}
	users int // guarded by the lock of sharing
	g     *Group
	c     *Client // instead of g, for a process that can be no member
	err   error
	early bool // the context of the opening that was to make it had ended
}

func (s *sharing) open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	inner, cfg, err := s.parse(t)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	if t.Name == cfg.Name {
		return nil, driver.Permanent(errNameOfGroup(t.Name))
	}
	key := shareKey{t.URL.String(), t.ID}
	s.mu.Lock()
	e := s.all[key]
	first := e == nil
	if first {
		e = &share{ready: make(chan struct{})}
		s.all[key] = e
	}
	e.users++
	if first {
		s.mu.Unlock()
		e.err = s.join(ctx, t, inner, cfg, e)
		e.early = ctx.Err() != nil
		s.mu.Lock()
		if e.err != nil {
			delete(s.all, key)
		}
		close(e.ready)
	}
	s.mu.Unlock()
	select {
	case <-e.ready:
	case <-ctx.Done():
		_ = s.leave(key, e)
		return nil, context.Cause(ctx)
	}
	if e.err != nil && e.early && ctx.Err() == nil {
		return s.open(ctx, t)
	}
	if e.err != nil {
		return nil, e.err
	}
	if e.c != nil {
		not := t.ID + " has no certificate of its own, and so is no member of the group; want one that names it"
		return &asker{e.c, t.Name, not, sync.OnceValue(func() error { return s.leave(key, e) })}, nil
	}
	elector := e.g.Elector(t.Name).(*elector)
	elector.stop = func() error { return s.leave(key, e) }
	return elector, nil
}

func errNameOfGroup(name string) error {
	return fmt.Errorf("the election %q has the name of its group; want another name, or another group-name", name)
}

// leave ends a use. The last one closes the member: at once if it holds nothing, and otherwise when its work was
// released, which Close does not wait for.
func (s *sharing) leave(key shareKey, e *share) error {
	s.mu.Lock()
	e.users--
	last := e.users == 0 && s.all[key] == e
	if last {
		delete(s.all, key)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	<-e.ready
	switch {
	case e.c != nil:
		return e.c.Close()
	case e.g == nil:
		return nil
	}
	if e.g.member.active.Load() > 0 {
		go func() { _ = e.g.Close() }()
		return nil
	}
	return e.g.Close()
}

// join makes the member, or the client.
func (s *sharing) join(ctx context.Context, t driver.Target, inner *url.URL, cfg Config, e *share) error {
	place, err := s.inner(ctx, driver.Target{URL: inner, Name: cfg.Name, ID: t.ID, Logger: t.Logger})
	if err != nil {
		return err
	}
	election, err := elect.New(place, elect.Config{Logger: t.Logger})
	if err != nil {
		_ = place.Close()
		return driver.Permanent(err)
	}
	if streams, ok := election.Streamer(); ok && streams.Streams().Asks {
		e.c, err = NewClient(election, cfg)
	} else {
		e.g, err = Join(ctx, election, cfg)
	}
	if err != nil {
		_ = election.Close()
		return driver.Permanent(err)
	}
	return nil
}

// prefixed is a URL with the scheme of a group.
func prefixed(u *url.URL) *url.URL {
	c := *u
	if !strings.HasPrefix(c.Scheme, schemePrefix) {
		c.Scheme = schemePrefix + c.Scheme
	}
	return &c
}

// parse divides a URL into that of the coordinator's election and what configures the group.
func (s *sharing) parse(t driver.Target) (*url.URL, Config, error) {
	cfg := Config{ID: t.ID, Logger: t.Logger, Name: defaultName}
	scheme, ok := strings.CutPrefix(t.URL.Scheme, schemePrefix)
	if !ok {
		return nil, cfg, fmt.Errorf("the scheme is %q; want %s and the scheme of the coordinator's election, such as group+file", t.URL.Scheme, schemePrefix)
	}
	inner := *t.URL
	inner.Scheme = scheme
	var theirs, ours []string
	for part := range strings.SplitSeq(t.URL.RawQuery, "&") {
		if strings.HasPrefix(part, "group-") {
			ours = append(ours, part)
		} else if part != "" {
			theirs = append(theirs, part)
		}
	}
	inner.RawQuery = strings.Join(theirs, "&")
	cfg.params = strings.Join(ours, "&")
	params, err := url.ParseQuery(cfg.params)
	if err != nil {
		return nil, cfg, err
	}
	if s.configure != nil {
		if err := s.configure(params, &cfg); err != nil {
			return nil, cfg, err
		}
	}
	known := []string{}
	for _, p := range []struct {
		name string
		set  func(string) error
	}{
		{"group-name", func(v string) error { cfg.Name = v; return driver.CheckName(v) }},
		{"group-listen", func(v string) error { cfg.Listen = v; return nil }},
		{"group-advertise", func(v string) error { cfg.Advertise = v; return nil }},
		{"group-promise", func(v string) error { return duration(v, &cfg.Promise) }},
		{"group-cover", func(v string) error { return duration(v, &cfg.Cover) }},
		{"group-token-bits", func(v string) error { return number(v, &cfg.TokenBits) }},
		{"group-zone", func(v string) error { cfg.Zone = v; return nil }},
		{"group-weight", func(v string) error { return number(v, &cfg.Weight) }},
		{"group-rate", func(v string) error { return rate(v, &cfg) }},
		{"group-flight", func(v string) error { cfg.Flight = v; return nil }},
		{"group-insecure", func(v string) error {
			if v != "true" {
				return errors.New("want true, or leave it out")
			}
			cfg.Insecure = true
			return nil
		}},
	} {
		known = append(known, p.name)
		values := params[p.name]
		delete(params, p.name)
		switch len(values) {
		case 0:
		case 1:
			if err := p.set(values[0]); err != nil {
				return nil, cfg, fmt.Errorf("parameter %s=%.40q: %w", p.name, values[0], err)
			}
		default:
			return nil, cfg, fmt.Errorf("parameter %s is there %d times; want it once", p.name, len(values))
		}
	}
	for name := range params {
		return nil, cfg, fmt.Errorf("there is no parameter %q; want one of %s, or one of the coordinator's election", name, strings.Join(slices.Sorted(slices.Values(known)), ", "))
	}
	return &inner, cfg, nil
}

func duration(text string, to *time.Duration) (err error) {
	if *to, err = time.ParseDuration(text); err != nil {
		return errors.New("want a time such as 3s")
	}
	return nil
}

func number(text string, to *int) error {
	if _, err := fmt.Sscanf(text, "%d", to); err != nil || fmt.Sprint(*to) != text {
		return errors.New("want a number")
	}
	return nil
}

func rate(text string, cfg *Config) error {
	var n int
	switch err := number(text, &n); {
	case err != nil || n < 0:
		return errors.New("want how many held keys may begin to move in a second, or 0 for no limit")
	case cfg.Placement != nil:
		return errors.New("this program has a placement of its own; want the parameter left out")
	}
	cfg.Placement = func() (placement.Placer, error) { return placement.New(placement.Settings{Rate: n}) }
	return nil
}
