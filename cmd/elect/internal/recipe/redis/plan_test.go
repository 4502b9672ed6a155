package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const planText = `
name: m
election: memory:x
id: e1
state: /s
secret-file: /x
electors: [{id: e1, address: 'a:1'}, {id: e2, address: 'b:1'}, {id: e3, address: 'c:1'}]
servers: [{id: r1, address: 'r1:6379'}, {id: r2, address: 'r2:6379'}, {id: r3, address: 'r3:6379'}]
`

// The step that follows from what an acting elector sees.
func TestNext(t *testing.T) {
	cfg, _, err := Read("f", []byte(planText))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	master := func(id string) Sight {
		return Sight{Info: Info{RunID: id + "-1", Master: true, Keys: true, ReplID: "h", Offset: 9, Good: 2, Replicas: 2}, InfoAt: now, OK: now}
	}
	replica := func(id, of string) Sight {
		return Sight{Info: Info{RunID: id + "-1", ReplID: "h", Offset: 9, Of: Address{of, 6379}, Linked: true, Priority: 100}, InfoAt: now, OK: now}
	}
	empty := func(id string) Sight {
		return Sight{Info: Info{RunID: id + "-1", Master: true, ReplID: id}, InfoAt: now, OK: now}
	}
	d := Decision{Token: 3, Number: 2, Master: "r1", RunID: "r1-1", ReplID: "h", Lag: 2, ToWrite: 1}
	none := Decision{}
	overdue := master("r1")
	overdue.OK, overdue.InfoAt = now.Add(-time.Second), now.Add(-time.Second)
	unseen := Sight{OK: now.Add(-time.Minute), Fails: 9}
	for _, c := range []struct {
		what   string
		change func(w *World)
		want   Step
		why    string
	}{
		{"all is well", func(*World) {}, Step{Kind: Wait}, ""},
		{"nothing decided, one master with data", func(w *World) { w.Decision = none }, Step{Adopt, "r1", ""}, "only master"},
		{"nothing decided, one server not seen", func(w *World) { w.Decision, w.Sights["r3"] = none, unseen }, Step{Wait, "", ""}, "r3 cannot be seen"},
		{"nothing decided, two masters with data", func(w *World) { w.Decision, w.Sights["r2"] = none, master("r2") }, Step{Wait, "", ""}, "r1, r2 are masters"},
		{"nothing decided, all empty", func(w *World) {
			w.Decision = none
			for id := range w.Sights {
				w.Sights[id] = empty(id)
			}
		}, Step{Adopt, "r1", ""}, "no server has data"},
		{"the master is gone", func(w *World) { w.Sights["r1"], w.Votes = Sight{Gone: 2, Fails: 2, OK: now}, 2 }, Step{Fail, "r1", ""}, "gone"},
		{"the master was refused once", func(w *World) { w.Sights["r1"], w.Votes = Sight{Gone: 1, Fails: 1, OK: now}, 2 }, Step{Wait, "r1", ""}, ""},
		{"the master is silent", func(w *World) { w.Sights["r1"], w.Votes = unseen, 2 }, Step{Fail, "r1", ""}, "silent"},
		{"the master is silent to one", func(w *World) { w.Sights["r1"], w.Votes = unseen, 1 }, Step{Wait, "r1", ""}, "2 are wanted"},
		{"this process was stopped", func(w *World) {
			w.Sights["r1"], w.Votes = Sight{OK: now.Add(-time.Minute), Fails: 1}, 2
		}, Step{Wait, "r1", ""}, ""},
		{"the master is late", func(w *World) { w.Sights["r1"], w.Late = overdue, 2 }, Step{Suspend, "r1", ""}, "has not answered for 1s"},
		{"the master is late to one", func(w *World) { w.Sights["r1"], w.Late = overdue, 1 }, Step{Wait, "r1", ""}, ""},
		{"the master is late, and was before", func(w *World) { w.Sights["r1"], w.Late, w.Alarms = overdue, 2, 1 }, Step{Wait, "", ""}, ""},
		{"the replicas were taken away", func(w *World) { w.Sights["r1"], w.Late, w.Held = overdue, 2, true }, Step{Wait, "r1", ""}, ""},
		{"the master was late, and answers", func(w *World) { w.Held = true }, Step{Resume, "r1", ""}, ""},
		{"the master is ill", func(w *World) {
			s := unseen
			s.Ill = "MISCONF"
			w.Sights["r1"], w.Votes = s, 2
		}, Step{SwitchOver, "r1", ""}, "MISCONF"},
		{"the master has restarted", func(w *World) { w.Decision.RunID, w.Told.RunID = "r1-0", "r1-0" }, Step{Fail, "r1", ""}, "restarted"},
		{"the replicas were taken away, and it has restarted", func(w *World) {
			w.Held, w.Decision.RunID, w.Told.RunID = true, "r1-0", "r1-0"
		}, Step{Fail, "r1", ""}, "restarted"},
		{"it has restarted, and a replica has taken its data", func(w *World) {
			w.Decision.RunID, w.Decision.ReplID = "r1-0", "g"
		}, Step{Confirm, "r1", ""}, "no replica has"},
		{"it has restarted empty, and a replica is not seen", func(w *World) {
			w.Decision.RunID, w.Decision.ReplID = "r1-0", "g"
			w.Sights["r1"], w.Sights["r3"] = empty("r1"), unseen
		}, Step{Wait, "r1", ""}, "r3 cannot be seen"},
		{"the decision was not carried out", func(w *World) { w.Sights["r1"] = replica("r1", "r2") }, Step{Finish, "r1", ""}, ""},
		{"its history has another name", func(w *World) { w.Decision.ReplID = "" }, Step{Confirm, "r1", ""}, ""},
		{"clients are not told", func(w *World) { w.Told = none }, Step{Announce, "r1", ""}, ""},
		{"an old master is back", func(w *World) { w.Sights["r2"] = master("r2") }, Step{Demote, "r2", ""}, ""},
		{"a replica of another", func(w *World) { w.Sights["r3"] = replica("r3", "r2") }, Step{Repoint, "r3", ""}, ""},
		{"an order has failed", func(w *World) { w.Sights["r3"], w.Skip = replica("r3", "r2"), map[string]bool{"r3": true} }, Step{Kind: Wait}, ""},
		{"somebody has undone the settings of the master", func(w *World) {
			s := master("r1")
			s.Info.Good = -1
			w.Sights["r1"] = s
		}, Step{Configure, "r1", ""}, ""},
		{"initial-master, and all are replicas", func(w *World) {
			c := *cfg
			c.Initial = "r2"
			w.Config, w.Decision, w.Sights["r1"] = &c, none, replica("r1", "r2")
		}, Step{Wait, "", ""}, "want REPLICAOF NO ONE there"},
		{"no settings", func(w *World) { w.Set = map[string]bool{"r1-1": true, "r3-1": true} }, Step{Configure, "r2", ""}, ""},
		{"other settings", func(w *World) { w.Decision.Lag, w.Told.Lag = 5, 5 }, Step{Confirm, "r1", ""}, "settings"},
		{"the master is not in servers", func(w *World) { w.Decision.Master = "r9" }, Step{Wait, "", ""}, "r9"},
	} {
		w := &World{
			Config: cfg, Now: now, Decision: d, Told: d,
			Sights: map[string]Sight{"r1": master("r1"), "r2": replica("r2", "r1"), "r3": replica("r3", "r1")},
			Set:    map[string]bool{"r1-1": true, "r2-1": true, "r3-1": true},
		}
		c.change(w)
		got := w.Next()
		if got.Kind != c.want.Kind || got.Server != c.want.Server || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %+v; want %+v with %q", c.what, got, c.want, c.why)
		}
	}
}

// Priority, then offset, then run id; and only who has the data.
func TestCandidates(t *testing.T) {
	d := Decision{Master: "r1", ReplID: "h", Previous: "g", Until: 50}
	i := func(history string, priority int, offset int64) Info {
		return Info{ReplID: history, Priority: priority, Offset: offset, RunID: fmt.Sprintf("%d-%d", priority, offset)}
	}
	for _, c := range []struct {
		infos map[string]Info
		all   bool
		want  []string
	}{
		{map[string]Info{"r2": i("h", 100, 7), "r3": i("h", 100, 8)}, true, []string{"r3", "r2"}},
		{map[string]Info{"r2": i("h", 10, 7), "r3": i("h", 100, 8)}, true, []string{"r2", "r3"}},
		{map[string]Info{"r2": i("h", 0, 7), "r3": i("h", 100, 8)}, true, []string{"r3"}},
		{map[string]Info{"r2": i("h", 100, 7), "r3": i("x", 100, 8)}, true, []string{"r2"}},
		{map[string]Info{"r2": i("h", 100, 7), "r3": i("g", 1, 80)}, true, []string{"r2"}},
		{map[string]Info{"r2": i("g", 100, 40), "r3": i("x", 1, 80)}, true, []string{"r2"}},
		{map[string]Info{"r2": i("g", 100, 40)}, false, nil},
		{map[string]Info{"r2": {ReplID: "h", Priority: 1, Syncing: true}, "r3": {ReplID: "h", Priority: 1, LinkDown: time.Hour}}, true, nil},
	} {
		if got := candidates(&d, c.infos, c.all, time.Minute); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v; want %v", c.infos, got, c.want)
		}
	}
}

func TestFenced(t *testing.T) {
	c := &Decision{ToWrite: 1, Lag: 2}
	for silent, want := range map[int]time.Duration{0: 0, 1: 4400 * time.Millisecond} {
		if got, why := c.fenced(silent, 0); got != want || why != "" {
			t.Errorf("%d silent: %v, %q; want %v", silent, got, why, want)
		}
	}
	if _, why := (&Decision{}).fenced(1, 0); why == "" {
		t.Error("nothing is known of the settings of a silent server; want a reason to wait")
	}
	if _, why := c.fenced(2, 0); why == "" {
		t.Error("two silent servers are a master that may write; want a reason to wait")
	}
	if _, why := c.fenced(1, 1); !strings.Contains(why, "not in servers") {
		t.Errorf("a silent server may be a master with a replica that is not in servers: %q; want that reason to wait", why)
	}
}

// A connection that has ended without a word, beside a newer one of the same replica, is no replica.
func TestReplicasOfInfo(t *testing.T) {
	i := parseInfo("role:master\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=40\r\nslave1:ip=10.0.0.2,port=6379,state=online,offset=9,lag=0\r\n" +
		"slave2:ip=10.0.0.9,port=6379,state=online,offset=9,lag=1\r\nslave3:ip=10.0.0.9,port=6379,state=wait_bgsave,offset=0,lag=0\r\n")
	if i.Replicas != 3 || !i.lists(Address{"10.0.0.2", 6379}) || i.lists(Address{"10.0.0.3", 6379}) {
		t.Errorf("%+v", i)
	}
}

func TestOlderActors(t *testing.T) {
	old, named, newer := olderActors("id=3 addr=x name=elect-orders-7 age=1\nid=4 name=elect-orders-9 x=y\nid=5 name=app\nid=6 name=elect-orders-8\n", 8)
	if !slices.Equal(old, []string{"3"}) || !named || !newer {
		t.Errorf("%v, %v, %v; want 3, this one, and a newer one", old, named, newer)
	}
}

// What a configuration must not have is told at its place.
func TestRefused(t *testing.T) {
	for old, c := range map[string]struct{ new, want string }{
		"id: e1\nstate":                   {"id: e9\nstate", `f:4:5: id: "e9" is not in electors`},
		"secret-file: /x":                 {"", "electors: there are several, and no secret-file"},
		"'r3:6379'":                       {"'r2:6379'", "servers[2]: its id or its address is that of another server"},
		"'r1:6379'":                       {"r1", `servers[0].address: "r1" is no address`},
		", {id: r3, address: 'r3:6379'}]": {"]", "servers: there are two"},
		"state: /s":                       {"state: /s\nquorum: 4", "f:6:9: quorum: it is 4, and there are 3 electors"},
		"state: /s\n":                     {"state: /s\nmin-replicas-to-write: 0\n", "f:6:24: min-replicas-to-write: with 0 nothing stops an old master"},
		"state: /s\nsecret":               {"state: /s\ninitial-master: r7\nsecret", `initial-master: "r7" is not in servers`},
		"state: /s\nsecret-":              {"state: /s\nfence: {limit: 5s}\nsecret-", "f:6:8: fence: there is no command; want run, or no fence"},
		"state: /s\nsecret-file: ":        {"state: s\nsecret-file: .", `state: "s" is relative; want an absolute path`},
		"name: m\nelection":               {"name: m\nnmae: x\nelection", "nmae: there is no such field"},
	} {
		_, _, err := Read("f", []byte(strings.Replace(planText, old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v; want %s", c.new, old, err, c.want)
		}
	}
}
