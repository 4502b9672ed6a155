package quorum

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/electd/elect/protocol"
)

func TestCompareNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "0", -1}, {"", "x", -1},
		{"9", "10", -1}, {"0009", "9", 0}, {"0", "00", 0}, {"10", "010", 0},
		{"7.9", "7.10", -1}, {"7.10", "7.10", 0}, {"8.0", "7.10", 1},
		{"7", "7.1", -1}, {"7.", "7", 1},
		{"0/16B3748", "0/16B3750", -1}, {"a9", "b1", -1}, {"a", "9", 1},
		{"99999999999999999999999999999999998", "99999999999999999999999999999999999", -1},
		{"gtid:1-5,9", "gtid:1-12", -1},
		{strings.Repeat("0", 200) + "1", "2", -1},
	} {
		if got := CompareNumbers(c.a, c.b); got != c.want {
			t.Errorf("CompareNumbers(%q, %q) = %d; want %d", c.a, c.b, got, c.want)
		}
		if got := CompareNumbers(c.b, c.a); got != -c.want {
			t.Errorf("CompareNumbers(%q, %q) = %d; want %d", c.b, c.a, got, -c.want)
		}
	}
}

// It is an order: of three positions, what holds between the first and the
// second, and the second and the third, holds between the first and the third.
// And of plain numbers it is theirs.
func TestCompareNumbersIsAnOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	random := func() string {
		b := make([]byte, r.IntN(5))
		for i := range b {
			b[i] = "019a./"[r.IntN(6)]
		}
		return string(b)
	}
	for range 200_000 {
		a, b, c := random(), random(), random()
		ab, bc, ac := CompareNumbers(a, b), CompareNumbers(b, c), CompareNumbers(a, c)
		if ab != -CompareNumbers(b, a) || ab <= 0 && bc <= 0 && (ac > 0 || ac == 0 && ab+bc < 0) {
			t.Fatalf("%q, %q, %q: %d, %d and %d", a, b, c, ab, bc, ac)
		}
		x, y := r.IntN(2000), r.IntN(2000)
		if got, want := CompareNumbers(fmt.Sprint(x), fmt.Sprint(y)), cmp.Compare(x, y); got != want {
			t.Fatalf("%d and %d: %d", x, y, got)
		}
	}
}

// The application's order is asked, but not about the empty position.
func TestCompareIsTheApplications(t *testing.T) {
	reversed := func(a, b string) int {
		if a == "" || b == "" {
			t.Errorf("it is asked about %q and %q", a, b)
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

// A position too long to be carried is not taken.
func TestLongPosition(t *testing.T) {
	m := start(t, Config{Self: voter(0), Membership: members(3)}, nil)
	for _, c := range []struct{ says, want string }{
		{"7", "7"}, {strings.Repeat("8", MaxPosition+1), "7"}, {strings.Repeat("8", MaxPosition), strings.Repeat("8", MaxPosition)}, {"", ""},
	} {
		step(m, &protocol.Input{Kind: protocol.Do, Now: m.now, Command: protocol.Command{Verb: protocol.Locate, Position: c.says}})
		if m.position != c.want {
			t.Errorf("told to be at %d bytes, it is at %q", len(c.says), m.position)
		}
	}
}
