package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/driver"
)

func TestJudge(t *testing.T) {
	right := settings{mode: "standalone", role: "master", appends: true, sync: "always", policy: "noeviction"}
	for name, c := range map[string]struct {
		change   func(s *settings)
		replicas int
		volatile bool
		want     string // "": it is accepted
	}{
		"right":                       {change: func(*settings) {}},
		"a cluster":                   {change: func(s *settings) { s.mode = "cluster" }, volatile: true, want: "want a server outside a cluster"},
		"a Sentinel":                  {change: func(s *settings) { s.mode = "sentinel" }, want: "master_name=NAME"},
		"no file":                     {change: func(s *settings) { s.appends = false }, want: "appendonly is no"},
		"no file, volatile":           {change: func(s *settings) { s.appends = false }, volatile: true},
		"synced each second":          {change: func(s *settings) { s.sync = "everysec" }, want: "appendfsync is everysec"},
		"not told":                    {change: func(s *settings) { s.sync, s.unknown = "", errors.New("NOPERM") }, want: "appendfsync cannot be read (NOPERM)"},
		"not told, volatile":          {change: func(s *settings) { s.sync = "" }, volatile: true},
		"evicts":                      {change: func(s *settings) { s.policy = "allkeys-lfu" }, volatile: true, want: "maxmemory-policy is allkeys-lfu"},
		"evicts others":               {change: func(s *settings) { s.policy = "volatile-lru" }},
		"replicas":                    {change: func(s *settings) { s.replicas = 2 }, volatile: true, want: "want replicas=2, which waits"},
		"replicas that it waits for":  {change: func(s *settings) { s.replicas = 2 }, replicas: 1},
		"replicas that do not matter": {change: func(s *settings) { s.replicas = 2 }, replicas: AnyReplicas},
	} {
		s, k := right, &key{replicas: c.replicas, volatile: c.volatile}
		c.change(&s)
		err := k.judge(&s)
		if (err == nil) != (c.want == "") || err != nil && (!driver.IsPermanent(err) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestAssumes: Limits say what a failover and a restart lose, where they may lose anything.
func TestAssumes(t *testing.T) {
	for _, c := range []struct {
		replicas int
		volatile bool
		era      int // how often it is named
	}{{0, false, 0}, {2, false, 0}, {AnyReplicas, false, 1}, {0, true, 1}, {AnyReplicas, true, 2}} {
		if text := assumes(c.replicas, c.volatile); strings.Count(text, "raise the era") != c.era {
			t.Errorf("replicas %d, volatile %t: %s; want the era in it %d times", c.replicas, c.volatile, text, c.era)
		}
	}
}

// TestSentinelsExplained: what go-redis says of Sentinels that know no master is said in words of a URL.
func TestSentinelsExplained(t *testing.T) {
	for text, want := range map[string]string{
		"redis: nil": "the Sentinels know no master of that name; want master_name=NAME as in their configuration",
		"ERR unknown command 'sentinel', with args": "the server is no Sentinel; want the address of a Sentinel, or no master_name",
	} {
		err := (&key{}).explained(errors.New("redis: all sentinels specified in configuration are unreachable: " + text))
		if !driver.IsPermanent(err) || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if err := (&key{}).explained(errors.New("redis: all sentinels specified in configuration are unreachable: connection refused")); driver.IsPermanent(err) {
		t.Errorf("%v; want an error that is tried again", err)
	}
}
