package quorum

import (
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol"
)

// The configured order is used, but not for the empty position.
func TestCompareIsTheApplications(t *testing.T) {
	reversed := func(a, b string) int {
		if a == "" || b == "" {
			t.Errorf("Compare is called with %q and %q", a, b)
		}
		return strings.Compare(b, a)
	}
	ms := members(3)
	for _, c := range []struct {
		policy    PositionPolicy
		own, asks string
		want      protocol.Reason
	}{
		{IgnorePosition, "a", "z", ""},
		{RequirePosition, "a", "z", BehindPosition}, {RequirePosition, "z", "a", ""}, {RequirePosition, "a", "a", ""},
		{RequirePosition, "a", "", BehindPosition}, {RequirePosition, "", "a", ""}, {RequirePosition, "", "", ""},
		{PreferPosition, "a", "z", BehindPosition}, {PreferPosition, "z", "a", ""},
	} {
		m := start(t, Config{Self: voter(0), Membership: ms, Position: c.policy, Compare: reversed}, nil)
		for _, command := range []protocol.Command{{Verb: protocol.Campaign}, {Verb: protocol.Locate, Position: c.own}} {
			step(m, &protocol.Input{Kind: protocol.Do, Now: m.now, Command: command})
		}
		ask := from(1, Vote, ms, 1)
		ask.Message.Position = c.asks
		fx := step(m, &ask)
		if len(fx.Sends) != 1 || fx.Sends[0].Message.Reason != c.want || fx.Sends[0].Message.Position != c.own {
			t.Errorf("%s: a voter at %q, asked by one at %q, sends %+v; want the reason %q", c.policy, c.own, c.asks, fx.Sends, c.want)
		}
	}
}

// A position that is too long is ignored.
func TestLongPosition(t *testing.T) {
	m := start(t, Config{Self: voter(0), Membership: members(3)}, nil)
	for _, c := range []struct{ says, want string }{
		{"7", "7"}, {strings.Repeat("8", protocol.MaxPosition+1), "7"}, {strings.Repeat("8", protocol.MaxPosition), strings.Repeat("8", protocol.MaxPosition)}, {"", ""},
	} {
		step(m, &protocol.Input{Kind: protocol.Do, Now: m.now, Command: protocol.Command{Verb: protocol.Locate, Position: c.says}})
		if m.position != c.want {
			t.Errorf("told to be at %d bytes, it is at %q", len(c.says), m.position)
		}
	}
}
