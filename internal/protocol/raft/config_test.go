package raft

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		wrong  string // empty: nothing
	}{
		{"the defaults", func(*Config) {}, ""},
		{"one member", func(c *Config) { c.Members = c.Members[:1] }, ""},
		{"the most members", func(c *Config) { c.Members = classictest.IDs(MaxMembers) }, ""},
		{"one too many", func(c *Config) { c.Members = classictest.IDs(MaxMembers + 1) }, "10001 members; want 1 to 10000"},
		{"no members", func(c *Config) { c.Members = nil }, "0 members; want 1 to 10000"},
		{"a stranger", func(c *Config) { c.Self = "n9" }, "n9 is none of the 3 members"},
		{"no self", func(c *Config) { c.Self = "" }, "0 bytes; want 1 to 64"},
		{"out of order", func(c *Config) { c.Members = []protocol.NodeID{"n10", "n1", "n2"} }, `"n1" after "n10"`},
		{"twice", func(c *Config) { c.Members = []protocol.NodeID{"n1", "n1"} }, "want each once"},
		{"options", func(c *Config) { c.PreVote, c.CheckQuorum, c.Position = true, true, RequirePosition }, ""},
		{"a policy of another protocol", func(c *Config) { c.Position = "prefer" }, `want "require" or none`},
		{"a short heartbeat", func(c *Config) { c.Heartbeat = time.Microsecond }, "want at least 1ms"},
		{"a negative heartbeat", func(c *Config) { c.Heartbeat = -1 }, "want at least 1ms"},
		{"a short timeout", func(c *Config) { c.ElectionTimeout = 99 * time.Millisecond }, "want at least 100ms"},
		{"a negative timeout", func(c *Config) { c.ElectionTimeout = -1 }, "want at least 100ms"},
		{"two heartbeats", func(c *Config) { c.ElectionTimeout = 100 * time.Millisecond }, ""},
		{"a long timeout", func(c *Config) { c.ElectionTimeout = longest + 1 }, "want at most 1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Self: "n1", Members: classictest.IDs(3)}
			c.change(&cfg)
			_, err := New(cfg)
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("error %v; want %q", err, c.wrong)
			}
		})
	}
}

// The timeout is drawn uniformly from its interval, by the random word of the step alone.
func TestTimeout(t *testing.T) {
	m, err := New(Config{Self: "n1", Members: classictest.IDs(3)})
	if err != nil {
		t.Fatal(err)
	}
	for rand, want := range map[uint64]time.Duration{
		0:                                150 * time.Millisecond,
		uint64(150*time.Millisecond) - 1: 300*time.Millisecond - 1,
		uint64(150 * time.Millisecond):   150 * time.Millisecond,
		1<<63 - 1<<63%uint64(m.cfg.ElectionTimeout): 150 * time.Millisecond,
	} {
		if m.rand = rand; m.timeout() != want {
			t.Errorf("with %d it waits %v; want %v", rand, m.timeout(), want)
		}
	}
	if c := (Config{}); c.Silence() != 300*time.Millisecond || c.WorstTakeover() != 1250*time.Millisecond {
		t.Errorf("silence %v, worst takeover %v", c.Silence(), c.WorstTakeover())
	}
	if c := (Config{ElectionTimeout: time.Second, CheckQuorum: true}); c.Silence() != 2*time.Second || c.WorstTakeover() != 10*time.Second+50*time.Millisecond {
		t.Errorf("silence %v, worst takeover %v", c.Silence(), c.WorstTakeover())
	}
}
