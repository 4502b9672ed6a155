//go:build linux

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceetcd"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/zombie"
)

func TestMain(m *testing.M) {
	zombie.Main(m, map[string]zombie.Opener{"mark": open("mark"), "asks": open("asks"), "key": open("key"), "asks who leads": open("asks who leads")})
}

const (
	value = "register/value" // the key of the register
	won   = "register/won"   // of the token of the last winner of the election in etcd
)

// register is a number in etcd.
type register struct {
	client *clientv3.Client
	fence  *fenceetcd.Guard
	form   string

	// Of the forms with an election in etcd.
	token    fence.Token // that was claimed with key
	session  *concurrency.Session
	election *concurrency.Election
	key      fenceetcd.Key
}

func open(form string) zombie.Opener {
	return func(ctx context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{where},
			Logger:    zap.NewNop(),
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return steps.Dial(ctx, "tcp", strings.TrimPrefix(address, "http://"))
			})},
		})
		if err != nil {
			return nil, err
		}
		guard, err := fenceetcd.New(client, "register", fenceetcd.Config{})
		return &register{client: client, fence: guard, form: form}, err
	}
}

func (r *register) Close() error { return r.client.Close() }

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	if r.election == nil && (r.form == "mark" || r.form == "asks") {
		return r.fence.Claim(ctx, token)
	}
	if token != r.token {
		if err := r.campaign(ctx, token); err != nil {
			return err
		}
		r.token = token
	}
	return r.key.Claim(ctx, r.client)
}

// campaign wins an election in etcd, with a lease that no other may have touched. It first gives up
// what an earlier term of this process holds there, whose writes are refused by now: otherwise this
// process would keep that lease alive, and wait for itself.
//
// The tokens of the history are those of another election, and the order here must be the same: a
// leader that waits here while a later one leads could win after all, when that loses its lease. So
// each one records its token when it has won, and gives up if it finds a greater one.
func (r *register) campaign(ctx context.Context, token fence.Token) error {
	if r.session != nil {
		_ = r.session.Close() // if that fails the lease runs out, because it is not kept alive
	}
	session, err := concurrency.NewSession(r.client, concurrency.WithTTL(1))
	if err != nil {
		return err
	}
	r.session, r.election = session, concurrency.NewElection(session, "election")
	if err := r.election.Campaign(ctx, strconv.FormatInt(int64(session.Lease()), 10)); err != nil {
		return err
	}
	key := fenceetcd.KeyOf(r.election)
	resp, err := r.client.Get(ctx, won)
	if err != nil {
		return err
	}
	for _, kv := range resp.Kvs {
		if highest, err := fence.ParseToken(string(kv.Value)); err != nil || token < highest {
			_ = session.Close()
			return errors.Join(err, &fence.StaleError{Shown: token, Highest: highest})
		}
	}
	if _, err := key.Write(ctx, r.client, clientv3.OpPut(won, token.Fixed())); err != nil {
		return err
	}
	r.key = key
	return nil
}

func (r *register) Read(ctx context.Context) (int64, error) {
	resp, err := r.client.Get(ctx, value)
	if err != nil || len(resp.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
}

func (r *register) Write(ctx context.Context, token fence.Token, to int64) error {
	text := strconv.FormatInt(to, 10)
	put := clientv3.OpPut(value, text)
	switch r.form {
	case "mark":
		_, err := r.fence.Write(ctx, token, put)
		return err
	case "key":
		_, err := r.key.Write(ctx, r.client, put)
		return err
	case "asks":
		s, err := r.fence.Status(ctx)
		if err != nil {
			return err
		}
		if token < s.Highest {
			return &fence.StaleError{Shown: token, Highest: s.Highest}
		}
	case "asks who leads":
		leader, err := r.election.Leader(ctx)
		if errors.Is(err, concurrency.ErrElectionNoLeader) {
			return fence.ErrStale
		}
		if err != nil {
			return err
		}
		if string(leader.Kvs[0].Key) != r.key.Name {
			return fence.ErrStale
		}
	default:
		return fmt.Errorf("no such form: %q", r.form)
	}
	_, err := r.client.Put(ctx, value, text)
	return err
}

// quick starts an etcd that grants leases of one second.
var quick = []string{"--heartbeat-interval", "50", "--election-timeout", "500"}

// prepare makes a register, at such an etcd.
func prepare(t *testing.T) (url string, read func(context.Context) (int64, error)) {
	t.Helper()
	etcd := server.StartEtcd(t, quick...)
	client := etcd.Client(t)
	f := guard(t, client, "register")
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return etcd.URL, (&register{client: client}).Read
}

// TestLeadsAnew: a process that is elected again, without another in between, does not wait for the
// key of its own earlier term.
func TestLeadsAnew(t *testing.T) {
	r := &register{client: server.StartEtcd(t, quick...).Client(t), form: "key"}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := r.Claim(ctx, 5); err != nil {
		t.Fatal(err)
	}
	earlier := r.key
	if err := errors.Join(r.Claim(ctx, 7), r.Write(ctx, 7, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Write(ctx, r.client, clientv3.OpPut(value, "2")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write for the earlier term: %v", err)
	}
}

// TestOvertaken: a candidate that wins the election in etcd after a leader with a greater token does
// not lead, and blocks no other.
func TestOvertaken(t *testing.T) {
	etcd := server.StartEtcd(t, quick...)
	older, newer := &register{client: etcd.Client(t), form: "key"}, &register{client: etcd.Client(t), form: "key"}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := errors.Join(newer.Claim(ctx, 7), newer.session.Close()); err != nil {
		t.Fatal(err)
	}
	if err := older.Claim(ctx, 5); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a claim with a smaller token: %v", err)
	}
	if err := newer.Claim(ctx, 8); err != nil {
		t.Error(err)
	}
}

// TestZombies freezes an older leader before every step of its claim and its write.
func TestZombies(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	for _, form := range []string{
		"mark", // the tokens are those of another election
		"key",  // the older leader's lease in etcd runs out while it is frozen
	} {
		t.Run(form, func(t *testing.T) {
			if form == "key" {
				long.Full(t, "sessions of etcd take long to run out")
			}
			url, read := prepare(t)
			r := zombie.Prove(t, zombie.Config{Opener: form, Where: url, Read: read, Wait: 15 * time.Second})
			if r.Waited > 0 {
				t.Errorf("the newer leader waited for the older one to go on in %d plays", r.Waited)
			}
		})
	}
}

// TestUnsafeZombies: the same leaders, which ask first and write afterwards.
func TestUnsafeZombies(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	for _, form := range []string{"asks", "asks who leads"} {
		t.Run(form, func(t *testing.T) {
			if form == "asks who leads" {
				long.Full(t, "sessions of etcd take long to run out")
			}
			url, read := prepare(t)
			zombie.Disprove(t, zombie.Config{Opener: form, Where: url, Read: read, Wait: 15 * time.Second})
		})
	}
}
