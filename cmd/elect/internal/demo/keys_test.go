package demo

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

// TestHavoc breaks a model at random for long: whatever is drawn can be done,
// everything that can happen does, and all is mended again and again.
func TestHavoc(t *testing.T) {
	m := newModel("lan", time.Second)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range ids {
		m.did(start, i, 0)
	}
	done := map[act]int{}
	whole := 0
	for k := range 2000 {
		now := time.Duration(k) * 10 * silence
		m.tick(now)
		for i := range ids { // somebody leads, if anybody can
			if m.majority() && m.nodes[i].reachable() && r.IntN(2) == 0 {
				m.wrote(line{At: now, Token: m.nextToken(), ID: ids[i], PID: 1000 + k, Number: 1})
				break
			}
		}
		o := m.havoc(r.IntN)
		if why := m.refused(o.act, o.node); why != "" {
			t.Fatalf("%d: act %d on %s is drawn, which is refused: %s", k, o.act, ids[o.node], why)
		}
		m.did(o.act, o.node, now)
		done[o.act]++
		if m.reachable() == size {
			whole++
		}
	}
	for _, a := range []act{start, kill, killJob, pause, wake, cut, heal, resign} {
		if done[a] == 0 {
			t.Errorf("act %d was never drawn", a)
		}
	}
	if whole < 400 {
		t.Errorf("all was well %d times of 2000; want a demo that recovers", whole)
	}
}

func (m *model) nextToken() fence.Token {
	l, _ := m.ledger.now()
	return l.token + 1
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, indent int
		want          []string
	}{
		{"", 10, 0, []string{""}},
		{"one two three", 7, 0, []string{"one two", "three"}},
		{"one two three", 8, 2, []string{"one two", "  three"}},
		{"unbreakable", 4, 0, []string{"unbr", "eaka", "ble"}},
		{"ää öö", 5, 0, []string{"ää öö"}},
		{"a b", 1, 0, []string{"a", "b"}},
	} {
		if got := wrap(c.text, c.width, c.indent); !slices.Equal(got, c.want) {
			t.Errorf("%q at %d is %q; want %q", c.text, c.width, got, c.want)
		}
	}
}
