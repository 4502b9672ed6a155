package groupbench

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/fence"
)

// Endpoint is an etcd for elections of its own client.
type Endpoint struct {
	hosts  []string
	prefix string
	ttl    int // of the session, in seconds
}

// ParseNative reads a URL such as native+etcd://10.0.0.1:2379/prefix?lease=5s. etcd is asked in plain text and without a
// password.
func ParseNative(text string) (*Endpoint, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != NativeScheme || u.Host == "" || u.User != nil { // its text may have a password
		return nil, fmt.Errorf("the URL is no place of etcd's own elections; want one such as %s://127.0.0.1:2379/prefix?lease=5s, without TLS and password", NativeScheme)
	}
	e := &Endpoint{prefix: strings.Trim(u.Path, "/"), ttl: 5}
	for host := range strings.SplitSeq(u.Host, ",") {
		if !strings.Contains(host, ":") {
			host += ":2379"
		}
		e.hosts = append(e.hosts, "http://"+host)
	}
	for key, values := range u.Query() {
		lease, err := time.ParseDuration(values[0])
		if key != "lease" || len(values) != 1 || err != nil || lease < time.Second || lease%time.Second != 0 {
			return nil, fmt.Errorf("the URL has the parameter %s=%q; want at most lease, in whole seconds", key, values)
		}
		e.ttl = int(lease / time.Second)
	}
	return e, nil
}

// Beneath puts the elections beneath a name of their own.
func (e *Endpoint) Beneath(name string) { e.prefix += "/" + name }

// NativeScheme is that of a URL of etcd's own elections.
const NativeScheme = "native+etcd"

// session is one of etcd's client, which all elections of a process share.
type session struct {
	*Endpoint
	client *clientv3.Client
	*concurrency.Session
}

func (e *Endpoint) session(ctx context.Context) (*session, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: e.hosts, DialTimeout: patience, Context: context.WithoutCancel(ctx)})
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(client, concurrency.WithTTL(e.ttl))
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &session{e, client, s}, nil
}

func (s *session) close() {
	_ = s.Session.Close()
	_ = s.client.Close()
}

func (s *session) contender(_ context.Context, key int) (contender, error) {
	return native{s, concurrency.NewElection(s.Session, s.prefix+"/native/"+name(key))}, nil
}

type native struct {
	s *session
	*concurrency.Election
}

func (n native) campaign(ctx context.Context) (victory, error) {
	if err := n.Campaign(ctx, "elect"); err != nil {
		return nil, err
	}
	return n, nil
}

func (n native) close() error                      { return nil }
func (n native) token() fence.Token                { return fence.Token(n.Rev()) }
func (n native) over() <-chan struct{}             { return n.s.Done() }
func (n native) release(ctx context.Context) error { return n.Resign(ctx) }

func (n native) expired() bool {
	select {
	case <-n.s.Done():
		return true
	default:
		return false
	}
}
