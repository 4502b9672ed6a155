package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/top"
	"github.com/electd/elect/peer"
)

// TestNodeWatch: a silent node delays no other, and a member that has moved is asked at its new address.
func TestNodeWatch(t *testing.T) {
	const silent = 3 * time.Second
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var work sync.WaitGroup
			begun := time.Now()
			const removal = 10*time.Second + 500*time.Millisecond // of n4
			membership := func() *peer.MembershipStatus {
				m := &peer.MembershipStatus{Term: 1, Count: 1, Voters: []peer.VoterStatus{{ID: "n1", Addr: "h:1"}, {ID: "n2", Addr: "h:9"}, {ID: "n3", Addr: "h:3"}}}
				if time.Since(begun) < removal {
					m.Observers = []peer.ObserverStatus{{ID: "n4", Addr: "h:4"}}
				}
				return m
			}
			w := nodeWatch{
				start: work.Go, listed: []peer.Peer{{ID: "n1", Addr: "h:1"}, {ID: "n2", Addr: "h:2"}, {ID: "n3", Addr: "h:3"}}, voters: 3,
				every: time.Second, early: early,
				ask: func(ctx context.Context, of peer.Peer) peer.NodeResult {
					r := peer.NodeResult{Peer: of, Err: errors.New("no answer")}
					switch of.Addr {
					case "h:1":
						r.Err, r.Status = nil, &peer.NodeStatus{ID: "n1", Role: "leader", Active: true, Token: 1, Leader: &elect.Leader{ID: "n1", Token: 1}, LeaseLeft: 800 * time.Millisecond, Membership: membership()}
					case "h:3":
						select {
						case <-time.After(silent):
						case <-ctx.Done():
						}
					case "h:4", "h:9":
						r.Err, r.Status = nil, &peer.NodeStatus{ID: of.ID, Role: "follower"}
					}
					return r
				},
			}
			var mu sync.Mutex
			var first time.Duration
			var last []top.Node
			work.Go(func() {
				w.follow(ctx, func(nodes []top.Node) {
					mu.Lock()
					defer mu.Unlock()
					if last == nil {
						first = time.Since(begun)
					}
					last = nodes
					for _, n := range nodes {
						if age := time.Since(n.At); n.ID == "n1" && n.Error == "" && age > time.Second {
							t.Errorf("after %v the leader's reading is %v old", time.Since(begun), age)
						}
					}
				})
			})
			time.Sleep(removal)
			synctest.Wait()
			ids := func() (all []string) {
				mu.Lock()
				defer mu.Unlock()
				for _, n := range last {
					all = append(all, n.ID+" "+n.Source+" "+n.Error)
				}
				return all
			}
			if got, want := ids(), []string{"n1 h:1 ", "n2 h:9 ", "n3 h:3 no answer", "n4 h:4 "}; !slices.Equal(got, want) {
				t.Errorf("%q; want %q", got, want)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got, want := ids(), []string{"n1 h:1 ", "n2 h:9 ", "n3 h:3 no answer"}; !slices.Equal(got, want) {
				t.Errorf("after the removal of n4: %q; want %q", got, want)
			}
			cancel()
			work.Wait()
			if want := (map[bool]time.Duration{true: 0, false: silent})[early]; first != want {
				t.Errorf("the first report is after %v; want %v", first, want)
			}
		})
	}
}

// TestTopVerdict: causes come from others, and go to a terminal.
func TestTopVerdict(t *testing.T) {
	for want, d := range map[string]top.Document{
		"cannot tell who leads n: c?[2J?": {Elections: []*top.Election{{Name: "n", Stale: true, Cause: "c\x1b[2J\u202e"}}},
		"http://x: c?[2J":                 {Sources: []*top.Source{{Source: "http://x", Error: "c\x1b[2J"}}},
		"file:/x: " + top.ErrNone.Error(): {Sources: []*top.Source{{Source: "file:/x", Error: top.ErrNone.Error()}}},
	} {
		if err := topVerdict(d); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
