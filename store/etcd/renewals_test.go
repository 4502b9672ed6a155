package etcd

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/electd/elect/driver"
)

// server is a fake of etcd's server of leases. A lease's time to live is its number.
type server struct {
	streams int // that were opened
	mu      sync.Mutex
	mute    bool // what it receives, it never answers
	swaps   bool // it answers the second of two requests first, as a proxy may
	asked   []int64
}

func (s *server) open(ctx context.Context) (stream, error) {
	s.streams++
	return &session{server: s, ctx: ctx, answers: make(chan int64, 2*window)}, nil
}

type session struct {
	*server
	ctx     context.Context
	answers chan int64
	kept    int64
}

func (s *session) Send(r *pb.LeaseKeepAliveRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.ID)
	switch {
	case s.mute:
	case s.swaps && s.kept == 0:
		s.kept = r.ID
	case s.swaps:
		s.answers <- r.ID
		s.answers <- s.kept
		s.kept = 0
	default:
		s.answers <- r.ID
	}
	return s.ctx.Err()
}

func (s *session) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case id := <-s.answers:
		return &pb.LeaseKeepAliveResponse{ID: id, TTL: id}, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// rig runs a test with a server.
func rig(t *testing.T, do func(t *testing.T, s *server, r *renewals)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := &renewals{open: s.open}
		r.life, r.end = context.WithCancel(t.Context())
		do(t, s, r)
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

func (r *renewals) within(ctx context.Context, lease int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return r.renew(ctx, lease)
}

// TestOneStream: all renew on one stream, and each gets the answer to its own request, whatever the
// order of the answers to different leases.
func TestOneStream(t *testing.T) {
	for _, swaps := range []bool{false, true} {
		rig(t, func(t *testing.T, s *server, r *renewals) {
			s.swaps = swaps
			var work sync.WaitGroup
			for id := range int64(1000) {
				work.Go(func() {
					if ttl, err := r.within(t.Context(), id+1); ttl != id+1 || err != nil {
						t.Errorf("lease %d lives for %d, %v", id+1, ttl, err)
					}
				})
			}
			work.Wait()
			if s.streams != 1 || len(s.asked) != 1000 || r.now == nil {
				t.Errorf("%d streams for %d requests", s.streams, len(s.asked))
			}
		})
	}
}

// TestGivenUp: an election that is closed, or gives up while others are answered, disturbs no other,
// and the answer to its request is not taken for that to the next one.
func TestGivenUp(t *testing.T) {
	rig(t, func(t *testing.T, s *server, r *renewals) {
		s.mute = true
		closing, end := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() {
			if _, err := r.within(closing, 7); !errors.Is(err, context.Canceled) {
				t.Errorf("%v; want that it was closed", err)
			}
		})
		synctest.Wait()
		end()
		work.Wait()
		work.Go(func() {
			if ttl, err := r.within(t.Context(), 7); ttl != 70 || err != nil {
				t.Errorf("%d, %v; want the second answer", ttl, err)
			}
		})
		synctest.Wait()
		answer := func(ttl int64) {
			if err := r.answered(r.now, &pb.LeaseKeepAliveResponse{ID: 7, TTL: ttl}); err != nil {
				t.Error(err)
			}
		}
		answer(7)
		synctest.Wait()
		answer(70)
		work.Wait()
		if s.streams != 1 {
			t.Errorf("%d streams; want one", s.streams)
		}
		if err := r.answered(r.now, &pb.LeaseKeepAliveResponse{ID: 7, TTL: 7}); err == nil {
			t.Error("an answer without a request is taken")
		}
	})
}

// TestSilent: a stream on which nothing is answered ends with the first request that was in vain. A
// server that answers nobody in time is sent no more than the window.
func TestSilent(t *testing.T) {
	rig(t, func(t *testing.T, s *server, r *renewals) {
		s.mute = true
		var work sync.WaitGroup
		for id := range int64(1000) {
			work.Go(func() {
				if _, err := r.within(t.Context(), id+1); err == nil {
					t.Error("an answer from nowhere")
				}
			})
		}
		work.Wait()
		synctest.Wait()
		if len(s.asked) != window || r.now != nil {
			t.Errorf("%d requests were sent; want %d, and the stream to have ended", len(s.asked), window)
		}
		s.mute = false
		if ttl, err := r.within(t.Context(), 7); ttl != 7 || err != nil || s.streams != 2 {
			t.Errorf("%d, %v by stream %d; want another stream", ttl, err, s.streams)
		}
	})
}

// TestSharedClient: the elections of a process share a client if they connect in the same way, and
// closing one disturbs no other. Nothing answers here, and nothing needs to.
func TestSharedClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // New need not wait for etcd
	open := func(text, name string) *elector {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(ctx, driver.Target{URL: u, Name: name, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return e.(*elector)
	}
	a, b, other := open("etcd://127.0.0.1:1/x", "one"), open("etcd://127.0.0.1:1/y?era=2", "two"), open("etcd://127.0.0.2:1/x", "one")
	quick := open("etcd://127.0.0.1:1/z?lease=4s", "three") // its requests time out earlier
	if quick.store.client != a.store.client || quick.store.renewals == a.store.renewals {
		t.Error("elections with two leases share no client, or a stream")
	}
	if err := quick.Close(); err != nil {
		t.Error(err)
	}
	if a.store.client != b.store.client || a.store.renewals != b.store.renewals || a.store.client == other.store.client {
		t.Errorf("clients %p, %p and %p; want one for two elections at one place", a.store.client, b.store.client, other.store.client)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := b.store.client.Ctx().Err(); err != nil || b.store.renewals.life.Err() != nil {
		t.Errorf("%v; want what the second election uses to be open", err)
	}
	if err := errors.Join(b.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if b.store.client.Ctx().Err() == nil || b.store.renewals.life.Err() == nil {
		t.Error("the client and its stream are open after the last election")
	}
}

// TestAccess: what two elections must have in common to share a client.
func TestAccess(t *testing.T) {
	key := func(text string) access {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, c, err := parse(u, "e", func(name string) string { return map[string]string{"ETCDCTL_PASSWORD": "p"}[name] })
		if err != nil {
			t.Fatal(err)
		}
		return c.access()
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"etcd://u@h/x", "etcd://u:p@h:2379/y?lease=4s&era=2&key=z", true},
		{"etcd://u@h", "etcd://v@h", false},
		{"etcd://u@h", "etcd://u:q@h", false},
		{"etcd://u@h", "etcd://u@i", false},
		{"etcd://u@h", "etcd://u@h?tls=on", false},
		{"etcd://u@h?tls=on", "etcd://u@h?tls=on&server_name=n", false},
	} {
		if same := key(c.a) == key(c.b); same != c.same {
			t.Errorf("%s and %s share a client: %t", c.a, c.b, same)
		}
	}
}
