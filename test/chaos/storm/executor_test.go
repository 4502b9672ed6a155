//go:build linux

package storm

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
)

// perform carries out a schedule in fake time.
func perform(t *testing.T, ctx context.Context, s *Schedule, prepare func(*dummies)) (*dummies, *executor, error) {
	t.Helper()
	d := newDummies(s)
	if prepare != nil {
		prepare(d)
	}
	x, err := newExecutor(s, d.target(s))
	if err != nil {
		t.Fatal(err)
	}
	return d, x, x.run(ctx)
}

// TestAllIsUndone: with any schedule, in the end everything is as at the beginning, and not long
// after the plan.
func TestAllIsUndone(t *testing.T) {
	begun := map[string]int{}
	for _, p := range plans() {
		for seed := range uint64(6) {
			synctest.Test(t, func(t *testing.T) {
				p.Seed = seed
				s := draw(t, p)
				began := time.Now()
				d, x, err := perform(t, t.Context(), s, nil)
				if err != nil {
					t.Fatalf("%s, seed %d: %v", p.Setup, seed, err)
				}
				d.undone(t, x)
				if took, late := time.Since(began), s.End()+30*s.Promise+10*time.Second; took < s.For || took > late {
					t.Errorf("%s, seed %d: it took %v; want from %v to %v", p.Setup, seed, took, s.For, late)
				}
				if b, left := x.total(); b < 10*left {
					t.Errorf("%s, seed %d: of %d faults %d were left out: %v", p.Setup, seed, b+left, left, x.skipped)
				}
				for name, n := range x.begun {
					begun[name] += n
				}
				if len(x.broken) > 0 {
					t.Errorf("%v", x.broken)
				}
			})
		}
	}
	for _, f := range Faults() {
		if !f.Asked && begun[f.Name] == 0 {
			t.Errorf("%s never came about", f.Name)
		}
	}
}

// TestInterrupted: the same when a storm is interrupted at any time.
func TestInterrupted(t *testing.T) {
	for _, p := range plans() {
		for seed := range uint64(8) {
			synctest.Test(t, func(t *testing.T) {
				p.Seed = seed
				s := draw(t, p)
				after := time.Duration(seed+1) * s.For / 9
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				began := time.Now()
				d, x, err := perform(t, ctx, s, nil)
				if err != nil {
					t.Fatalf("%s, seed %d: %v", p.Setup, seed, err)
				}
				d.undone(t, x)
				if took := time.Since(began); took > after+5*time.Second {
					t.Errorf("%s, seed %d: it took %v to end", p.Setup, seed, took-after)
				}
			})
		}
	}
}

// TestEachAlone carries out each fault by itself, and with an operation that fails.
func TestEachAlone(t *testing.T) {
	for _, f := range Faults() {
		for n, p := range plans() {
			p.Faults = []string{f.Name}
			p.For = p.For / 10
			for _, fail := range []string{"", "set", "kill", "fault", "cont"} {
				if fail != "" && n > 0 {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					p.Seed = 1
					s, err := Draw(p)
					if err != nil {
						return // not with this plan
					}
					d, x, err := perform(t, t.Context(), s, func(d *dummies) { d.fail = fail })
					if begun, left := x.total(); fail == "" && begun == 0 && !(strings.HasPrefix(f.Name, "clock-") && left > 0) {
						t.Errorf("%s: never begun, %d times left out", f.Name, left)
					}
					switch {
					case fail == "" && err != nil:
						t.Errorf("%s: %v", f.Name, err)
					case fail == "":
						d.undone(t, x)
					case err != nil && !strings.Contains(err.Error(), fail+" fails"):
						t.Errorf("%s, when %s fails: %v", f.Name, fail, err)
					}
				})
			}
		}
	}
}

// TestEachKeepsItsClass: a node without the part that a fault needs is released, and the fault
// still excludes others of its class.
func TestEachKeepsItsClass(t *testing.T) {
	s := draw(t, plans()[0])
	x, err := newExecutor(s, newDummies(s).target(s))
	if err != nil {
		t.Fatal(err)
	}
	a := &act{Planned: Planned{Number: 1, Order: []int{0, 1}}, x: x, ctx: t.Context()}
	var class, begun bool
	a.undo("class", func(context.Context) error { class = true; return nil })
	if err := a.each(func(i int) error {
		if i == 0 {
			a.undo("begun", func(context.Context) error { begun = true; return nil })
			return cluster.ErrNone
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if class || !begun || x.claimed[0] != 0 || x.claimed[1] != 1 {
		t.Errorf("the class is undone: %t, what was begun: %t, claimed %v", class, begun, x.claimed)
	}
	if err := a.undoAll(); err != nil || !class || x.claimed[1] != 0 {
		t.Errorf("in the end: %v, the class is undone: %t, claimed %v", err, class, x.claimed)
	}
}

// TestRepairFails: it is a broken promise if a node never gets its vote back.
func TestRepairFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plans()[0]
		p.Faults = []string{"wiped-disk"}
		p.For = 10 * time.Second
		_, x, err := perform(t, t.Context(), draw(t, p), func(d *dummies) { d.fail = "replace" })
		if err != nil {
			t.Fatal(err)
		}
		if len(x.broken) == 0 || x.broken[0].Check != checkLive {
			t.Errorf("%v", x.broken)
		}
	})
}

// TestTwinIsNotRefused: it is a broken promise if a second process in one directory goes on, unless
// the first one has ended; elsewhere no other node may be there to refuse it.
func TestTwinIsNotRefused(t *testing.T) {
	for fault, want := range map[string]bool{"twin-same-directory": true, "twin-other-directory": false} {
		synctest.Test(t, func(t *testing.T) {
			p := plans()[0]
			p.Faults = []string{fault}
			p.For = 10 * time.Second
			_, x, err := perform(t, t.Context(), draw(t, p), func(d *dummies) { d.fail = "refused" })
			if err != nil {
				t.Fatal(err)
			}
			if broken := len(x.broken) > 0 && x.broken[0].Check == checkRefused; broken != want {
				t.Errorf("%s: %v", fault, x.broken)
			}
		})
	}
}

// TestOperatorsAreToldTheTruth: a paused node does not lead, and one that is reported to lead
// works. It is enough that another one does with a later token.
func TestOperatorsAreToldTheTruth(t *testing.T) {
	for _, c := range []struct {
		fault, fail string
		tenures     []tenure
		want        string
	}{
		{"pause", "", nil, ""},
		{"pause", "", tenures(7, 8, 9), checkPaused},
		{"pause", "", []tenure{{0, 7, time.Millisecond}, {1, 8, time.Millisecond}, {2, 9, time.Millisecond}}, ""}, // zombies
		{"pause", "pause", tenures(7, 8, 9), ""}, // it has not agreed
		{"transfer", "work", nil, checkLive},
		{"transfer", "work", tenures(7, 7, 7), ""},
		{"transfer", "work", tenures(8), ""},
		{"transfer", "work", tenures(6), checkLive},
		{"transfer", "", nil, ""}, // it was refused
	} {
		synctest.Test(t, func(t *testing.T) {
			p := plans()[1]
			p.Faults = []string{c.fault}
			s := draw(t, p)
			s.Events = s.Events[:1] // alone
			_, x, err := perform(t, t.Context(), s, func(d *dummies) { d.fail, d.tenures = c.fail, c.tenures })
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(x.broken) > 0 {
				got = x.broken[0].Check
			}
			if got != c.want {
				t.Errorf("%+v: %v", c, x.broken)
			}
		})
	}
}

// tenures are one of each node, with these tokens.
func tenures(tokens ...int64) (all []tenure) {
	for i, token := range tokens {
		all = append(all, tenure{i, token, time.Second})
	}
	return all
}

// TestAddedIsBefallen: faults affect an added node like the founders, and stop before it is
// removed.
func TestAddedIsBefallen(t *testing.T) {
	befallen := map[string]int{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			p := plans()[0]
			p.Seed, p.Faults = seed, []string{"add-member", "kill-node", "stop-family", "isolate-follower", "power-loss"}
			s := draw(t, p)
			d, x, err := perform(t, t.Context(), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			d.undone(t, x)
			for _, e := range d.events {
				if e.Kind == judge.Fault && e.Node == s.Voters && e.Fault != addMemberFault {
					befallen[e.Fault]++
				}
			}
		})
	}
	for _, fault := range []string{"kill-node", "stop-family", "power-loss"} {
		if befallen[fault] == 0 {
			t.Errorf("%s never befell the node that was added: %v", fault, befallen)
		}
	}
}

// TestJudgeIsToldFirst: the judge knows of a cut before it is made, and of its end only afterwards.
func TestJudgeIsToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plans()[0]
		p.Faults = []string{"halves", "one-way", "isolate-leader", "loss"}
		s := draw(t, p)
		d := newDummies(s)
		on := d.target(s)
		var told judge.Event
		note := on.note
		on.note = func(e judge.Event) {
			if e.Kind == judge.Links {
				told = e
			}
			note(e)
		}
		on.wires = &witnessed{d, func(before, after network.Links) {
			for _, links := range []network.Links{before, after} {
				for w, k := range links {
					if network.Merge(links, told.Links)[w] != told.Links[w] {
						t.Errorf("the link %v is %+v, and the judge was told %+v", w, k, told.Links[w])
					}
				}
			}
		}}
		x, err := newExecutor(s, on)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(told.Links, d.links) {
			t.Errorf("at the end the judge thinks of %v, and there is %v", told.Links, d.links)
		}
	})
}

// witnessed is wires with a check at each change.
type witnessed struct {
	*dummies
	look func(before, after network.Links)
}

func (w *witnessed) Set(l network.Links) error {
	w.look(w.links, l)
	return w.dummies.Set(l)
}
