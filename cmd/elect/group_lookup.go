package main

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/group"
)

// lookups serves who holds which key of the groups that elections of this process belong to. Each group has a client,
// which is opened when somebody asks first. Any number of goroutines may use it.
type lookups struct {
	openers elect.Openers

	mu  sync.Mutex
	all map[string]*lookup // by the group's name
}

// lookup is one group.
type lookup struct {
	openers elect.Openers
	place   string        // its URL without what is only of this member; "" if several groups have the name
	url     string        // as the first election of the group has it
	turn    chan struct{} // has room for one, which may open or close the client
	client  *group.Client // owned by the turn; nil before somebody has asked
	serve   http.Handler
}

func newLookups(openers elect.Openers) *lookups {
	return &lookups{openers: openers, all: map[string]*lookup{}}
}

// set sets the URLs of the elections. Others than those of groups do not count.
func (l *lookups) set(elections []string) {
	next := map[string]*lookup{}
	l.mu.Lock()
	for _, e := range elections {
		u, err := elect.ParseURL(e)
		if err != nil || !isGroup(u.Scheme) {
			continue
		}
		name, place := group.NameOf(u), placeOf(u)
		switch old, here := l.all[name], next[name]; {
		case here != nil && here.place == place:
		case here != nil:
			next[name] = &lookup{}
		case old != nil && old.place == place:
			next[name] = old
		default:
			of := &lookup{openers: l.openers, place: place, url: e, turn: make(chan struct{}, 1)}
			of.serve = electhttp.NewKeys(name, of, nil) // the server of elections has checked the host
			next[name] = of
		}
	}
	old := l.all
	l.all = next
	l.mu.Unlock()
	for name, of := range old {
		if of != next[name] {
			of.close()
		}
	}
}

// placeOf is a group's URL without parameters of this member.
func placeOf(u *url.URL) string {
	place := *u
	place.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(p string) bool {
		return strings.HasPrefix(p, "group-")
	}), "&")
	return place.String()
}

func (l *lookups) close() { l.set(nil) }

// ServeHTTP implements [http.Handler].
func (l *lookups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/groups/"), "/")
	l.mu.Lock()
	of := l.all[name]
	names := strings.Join(slices.Sorted(maps.Keys(l.all)), " or ")
	l.mu.Unlock()
	if of == nil || of.serve == nil {
		switch {
		case of != nil:
			names = "another group-name for one of the several groups of that name"
		case names == "":
			names = "an election in a group"
		}
		electhttp.NewKeys(names, nil, nil).ServeHTTP(w, r) // it answers that it has no other one
		return
	}
	of.serve.ServeHTTP(w, r)
}

// ask returns the client.
func (l *lookup) ask(ctx context.Context) (*group.Client, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.client == nil {
		c, err := openGroupURL(ctx, l.openers, l.url)
		if err != nil {
			return nil, err
		}
		l.client = c
	}
	return l.client, nil
}

// close ends the client. Who still uses it is told.
func (l *lookup) close() {
	if l.turn == nil {
		return
	}
	l.turn <- struct{}{} // and nobody opens it again
	if l.client != nil {
		_ = l.client.Close() // nothing was held
	}
}

// Status implements [electhttp.Coordinator].
func (l *lookup) Status(ctx context.Context) (group.Status, error) {
	c, err := l.ask(ctx)
	if err != nil {
		return group.Status{}, err
	}
	return c.Status(ctx)
}

// Lookup implements [electhttp.Coordinator].
func (l *lookup) Lookup(ctx context.Context, key string) (elect.Leader, error) {
	c, err := l.ask(ctx)
	if err != nil {
		return elect.Leader{}, err
	}
	return c.Lookup(ctx, key)
}
