package queue

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func TestConfig(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		cfg   Config
		wrong string // "": it is right
	}{
		{Config{Self: "n1", Dialect: Etcd}, ""},
		{Config{Self: "n1", Dialect: ZooKeeper}, ""},
		{Config{Self: "n1", Dialect: Etcd, TTL: 2 * s}, ""},
		{Config{Self: "n1", Dialect: Etcd, TTL: 300 * s}, ""},
		{Config{Self: "n1", Dialect: Etcd, TTL: s, ServerElection: 500 * ms}, ""},
		{Config{Self: "n1", Dialect: ZooKeeper, TTL: 400 * ms}, ""},
		{Config{Self: "n1", Dialect: ZooKeeper, TTL: 10 * s, Hold: 10 * s, MaxHold: 10 * s}, ""},
		{Config{Self: "n1", Dialect: ZooKeeper, TTL: 30 * s}, ""},
		{Config{Self: "n1", Dialect: Etcd, ServersFixed: true}, ""},
		{Config{Self: "n1", Dialect: Etcd, ServersFixed: true, Hold: s}, ""},

		{Config{Dialect: Etcd}, "self"},
		{Config{Self: "web-3:4711", Dialect: Etcd}, ""},
		{Config{Dialect: Etcd}, "self"},
		{Config{Self: protocol.NodeID(strings.Repeat("a", 129)), Dialect: Etcd}, "self"},
		{Config{Self: "n1"}, "want etcd or zookeeper"},
		{Config{Self: "n1", Dialect: 9}, "want etcd or zookeeper"},
		{Config{Self: "n1", Dialect: Etcd, TTL: s}, "want 2s to 5m0s"},
		{Config{Self: "n1", Dialect: Etcd, TTL: -s}, "want 2s to 5m0s"},
		{Config{Self: "n1", Dialect: Etcd, TTL: 2500 * ms}, "whole seconds"},
		{Config{Self: "n1", Dialect: Etcd, TTL: 301 * s}, "5m0s"},
		{Config{Self: "n1", Dialect: Etcd, TTL: 4 * s, ServerElection: 3 * s}, "want 5s to"},
		{Config{Self: "n1", Dialect: Etcd, ServerElection: -s}, "server_election"},
		{Config{Self: "n1", Dialect: ZooKeeper, TTL: 1500 * time.Microsecond}, "whole milliseconds"},
		{Config{Self: "n1", Dialect: ZooKeeper, TTL: 301 * s}, "5m0s"},
		{Config{Self: "n1", Dialect: ZooKeeper, ServerElection: s}, "want 0 in ZooKeeper's dialect"},
		{Config{Self: "n1", Dialect: ZooKeeper, TTL: 10 * s, Hold: 11 * s}, "at most the TTL of 10s"},
		{Config{Self: "n1", Dialect: ZooKeeper, Hold: -s}, "a hold of -1s"},
		{Config{Self: "n1", Dialect: Etcd, Hold: -s}, "a hold of -1s"},
		{Config{Self: "n1", Dialect: ZooKeeper, Hold: 6 * s}, "raise max_hold"},
		{Config{Self: "n1", Dialect: Etcd, MaxHold: -s}, "max_hold of -1s"},
		{Config{Self: "n1", Dialect: Etcd, MaxHold: 301 * s}, "max_hold of 5m1s"},
		{Config{Self: "n1", Dialect: ZooKeeper, ServersFixed: true}, "want false in ZooKeeper's dialect"},
		{Config{Self: "n1", Dialect: Etcd, Drift: protocol.Drift{PPM: 300_000}}, "300000 ppm"},
		{Config{Self: "n1", Dialect: Etcd, Drift: protocol.Drift{Guard: 1 << 62}}, "a guard of"},
		{Config{Self: "n1", Dialect: Etcd, TTL: 2 * s, KeepAliveEvery: 2 * s}, "not more than keep_alive_every, 2s"},
		{Config{Self: "n1", Dialect: ZooKeeper, Hold: 20 * ms, Drift: protocol.Drift{Guard: 20 * ms}}, "(1−ρ)/(1+ρ) − 20ms"},
		{Config{Self: "n1", Dialect: Etcd, KeepAliveEvery: -1}, "keep_alive_every"},
		{Config{Self: "n1", Dialect: Etcd, Poll: -1}, "a poll of"},
		{Config{Self: "n1", Dialect: Etcd, Backoff: -1}, "a backoff of"},
	} {
		m, err := New(c.cfg)
		switch {
		case c.wrong == "" && (err != nil || m == nil):
			t.Errorf("%+v: %v", c.cfg, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%+v: error %v; want one that says %q", c.cfg, err, c.wrong)
		}
	}
}

func TestConfigJSON(t *testing.T) {
	for _, cfg := range settings() {
		text, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got Config
		if err := json.Unmarshal(text, &got); err != nil || got != cfg {
			t.Errorf("%s became %+v, %v; want %+v", text, got, err, cfg)
		}
	}
	var d Dialect
	if err := d.UnmarshalText([]byte("consul")); err == nil || !strings.Contains(err.Error(), "want etcd or zookeeper") {
		t.Errorf("dialect consul: %v", err)
	}
}

func TestWorstTakeover(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want time.Duration
	}{
		{Config{Dialect: Etcd, TTL: 19 * time.Second, ServersFixed: true}, 20 * time.Second},
		{Config{Dialect: Etcd, TTL: 14 * time.Second}, 20 * time.Second}, // and 5 s of hold
		{Config{Dialect: ZooKeeper, TTL: 9500 * ms, Hold: 9500 * ms, MaxHold: 9500 * ms}, 20 * time.Second},
	} {
		if got := c.cfg.WorstTakeover(); got != c.want {
			t.Errorf("%+v: %v; want %v", c.cfg, got, c.want)
		}
	}
}

// Q5: the margin covers a deposed leader's last answer, on the slowest clock: 4ρE/(1−ρ²) of true
// time.
func TestMarginOfEtcd(t *testing.T) {
	for _, ppm := range []int64{0, 1, 100, 50_000, protocol.MaxPPM} {
		for _, e := range []time.Duration{1, 999_999_999, time.Second, MaxTTL} {
			c := Config{Dialect: Etcd, ServerElection: e, Drift: protocol.Drift{PPM: ppm, Guard: time.Millisecond}}
			rho := new(big.Rat).SetFrac64(ppm, 1_000_000)
			one := big.NewRat(1, 1)
			need := new(big.Rat).Mul(new(big.Rat).Mul(rho, big.NewRat(4, 1)), new(big.Rat).SetInt64(int64(e)))
			need.Quo(need, new(big.Rat).Sub(one, new(big.Rat).Mul(rho, rho)))
			off := new(big.Rat).SetInt64(int64(c.margin().Guard - c.Drift.Guard))
			if worth := off.Quo(off, new(big.Rat).Sub(one, rho)); worth.Cmp(need) < 0 {
				t.Errorf("%d ppm, E = %v: takes off %v; want at least %v", ppm, e, worth.FloatString(3), need.FloatString(3))
			}
		}
	}
}

// TestPace: how often etcd's participants ask. A leader renews no more rarely than its claim allows
// after a lost answer, a waiter no more often than a native one.
func TestPace(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		cfg                        Config
		leads, waits, checks, wait time.Duration // wait is that for an answer
	}{
		{Config{Dialect: Etcd, TTL: 12 * s, Hold: 4 * s}, 4 * s, 6 * s, s, s},
		{Config{Dialect: Etcd, TTL: 12 * s, ServersFixed: true}, 4 * s, 6 * s, 4 * s, 3 * s},
		{Config{Dialect: Etcd, TTL: 12 * s, ServersFixed: true, KeepAliveEvery: s}, s, 6 * s, s, s},
		{Config{Dialect: ZooKeeper, TTL: 12 * s, Hold: 4 * s}, s, s, s, s},
	} {
		c.cfg.Self = "n1"
		m, err := New(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg := m.Config()
		if leads, waits := cfg.renewEvery(leading), cfg.renewEvery(waiting); leads != c.leads || waits != c.waits || cfg.KeepAliveEvery != c.checks || cfg.RequestTimeout() != c.wait {
			t.Errorf("%+v: a leader renews every %v, a waiter every %v, claims every %v, and waits for %v", c.cfg, leads, waits, cfg.KeepAliveEvery, cfg.RequestTimeout())
		}
		// Checks are never much earlier than planned; in etcd's dialect they keep their instants.
		for _, d := range []time.Duration{cfg.KeepAliveEvery, cfg.Poll / 2, 3 * cfg.Poll / 2} {
			for from := protocol.Instant(0); from < protocol.Instant(20*s); from += 123_456_789 {
				at := m.checkAt(from, d)
				again := m.checkAt(at, cfg.KeepAliveEvery)
				if early := from.Add(d).Sub(at); early < 0 || early >= d/2 {
					t.Fatalf("%+v: a check planned %v after %v is %v early", c.cfg, d, from, early)
				}
				if cfg.Dialect == Etcd && again.Sub(at) != cfg.KeepAliveEvery {
					t.Fatalf("%+v: after the check at %v comes one at %v", c.cfg, at, again)
				}
			}
		}
	}
}
