package top

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/screen"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures of testdata anew")

// noon is when the tests begin.
func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func leads(id string, token elect.Token, since time.Time) *State {
	return &State{Leader: &elect.Leader{ID: id, Token: token, Since: since}}
}

// over is what a participant says over HTTP. left is in milliseconds; negative means that it does not lead.
func over(source, election, id string, s *State, left int64, at time.Time) Report {
	n := Node{ID: id, Source: source, State: "candidate", Ready: true}
	if left >= 0 {
		n.State, n.Leads, n.Token, n.Lease = "leader", true, s.Leader.Token, &left
	}
	return Report{Source: source, At: at, Whole: true, Seen: []Seen{{Key: Key{"file:/var/lib/elect", election}, State: s, Nodes: []Node{n}}}}
}

func (m *Model) firing() (all []string) {
	for _, a := range m.alerts {
		all = append(all, a.Alert)
	}
	return all
}

// TestAlerts: each rule fires when its condition has held for its time, and not before.
func TestAlerts(t *testing.T) {
	const a, b = "http://127.0.0.1:1", "http://127.0.0.1:2"
	for name, c := range map[string]struct {
		say  func(m *Model, now time.Time, second int)
		want string
		at   time.Duration // after which it is said
	}{
		"ElectTwoLeadersInOneTerm": {func(m *Model, now time.Time, _ int) {
			m.Apply(over(a, "e", "a", leads("a", 1, noon()), 900, now))
			m.Apply(over(b, "e", "b", leads("b", 1, noon()), 900, now))
		}, "ElectTwoLeadersInOneTerm", 0},
		"ElectTwoLeaders": {func(m *Model, now time.Time, _ int) {
			m.Apply(over(a, "e", "a", leads("a", 1, noon()), 900, now))
			m.Apply(over(b, "e", "b", leads("b", 2, noon()), 900, now))
		}, "ElectTwoLeaders", 2 * time.Minute},
		"ElectNoLeader": {func(m *Model, now time.Time, _ int) {
			m.Apply(over(a, "e", "a", &State{}, -1, now))
		}, "ElectNoLeader", time.Minute},
		"ElectNoParticipant": {func(m *Model, now time.Time, second int) {
			if second == 0 {
				m.Expect(a, Key{"file:/var/lib/elect", "e"})
			}
			m.Apply(Report{Source: a, At: now, Err: errors.New("refused")})
		}, "ElectNoParticipant", time.Minute},
		"ElectManyLeaderChanges": {func(m *Model, now time.Time, second int) {
			m.Apply(over(a, "e", "a", leads("x", elect.Token(1+second/60), noon()), -1, now))
		}, "ElectManyLeaderChanges", 4 * time.Minute},
		"ElectLeaseSlackLow": {func(m *Model, now time.Time, second int) {
			left := int64(900)
			if second > 100 {
				left = 300
			}
			m.Apply(over(a, "e", "a", leads("a", 1, noon()), left, now))
		}, "ElectLeaseSlackLow", 5*time.Minute + 134*time.Second}, // a quarter of 134 samples is low
		"ElectCandidateIll": {func(m *Model, now time.Time, _ int) {
			r := over(a, "e", "a", leads("x", 1, noon()), -1, now)
			r.Seen[0].Nodes[0].Ill, r.Seen[0].Nodes[0].Health = true, "ill"
			m.Apply(r)
		}, "ElectCandidateIll", 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var m Model
			for second := range 10 * 60 {
				now := noon().Add(time.Duration(second) * time.Second)
				c.say(&m, now, second)
				m.Judge(now)
				said := slices.Contains(m.firing(), c.want)
				if want := now.Sub(noon()) >= c.at; said != want {
					t.Fatalf("after %v: %v; want it from %v on", now.Sub(noon()), m.firing(), c.at)
				}
			}
		})
	}
}

// notJudged are the rules of deploy/prometheus that top does not judge, and why.
var notJudged = map[string]string{
	"ElectOverrun":              "only the process itself counts overruns",
	"ElectNoQuorum":             "top does not see which peers are connected",
	"ElectConfigurationsDiffer": "top does not see the membership that each peer knows",
	"ElectPeerSlow":             "top does not see which voter answered when",
	"ElectClockRate":            "only the leader compares clocks",
	"ElectDiskSlow":             "only the process itself times its disk",
	"ElectClockStepped":         "only the process itself counts steps of its clocks",
	"ElectStaleWrite":           "only the fence counts what it refuses",
}

// TestRules: names, severities and times are those of deploy/prometheus.
func TestRules(t *testing.T) {
	var all, groups []string
	for _, r := range rules {
		all = append(all, fmt.Sprint(r.name, r.severity, r.wait))
	}
	for _, r := range groupRules {
		groups = append(groups, fmt.Sprint(r.name, r.severity, r.wait))
	}
	asShipped(t, "elect.rules.yml", all)
	asShipped(t, "group.rules.yml", groups)
}

// asShipped compares rules with those of a file.
func asShipped(t *testing.T, name string, got []string) {
	t.Helper()
	text, err := os.ReadFile("../../../../deploy/prometheus/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				For    string
				Labels map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range file.Groups[0].Rules {
		if notJudged[r.Alert] != "" {
			continue
		}
		wait := time.Duration(0)
		if r.For != "" {
			if wait, err = time.ParseDuration(r.For); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, fmt.Sprint(r.Alert, r.Labels["severity"], wait))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant those of the rules for Prometheus, or a line in notJudged: %q", got, want)
	}
}

// world is a model with what can be seen.
func world() *Model {
	m := &Model{Fresh: 2 * time.Second}
	peers := Key{"peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400", "scheduler"}
	m.Expect("P", peers)
	left := int64(870)
	m.Apply(Report{Source: "P", At: noon().Add(-200 * time.Millisecond), Seen: []Seen{{Key: peers, State: leads("n2", 7, noon().Add(-3*time.Hour)), Nodes: []Node{
		{ID: "n1", Source: "10.0.0.1:7400", State: "follower", RTT: 210 * time.Microsecond, Ready: true},
		{ID: "n2", Source: "10.0.0.2:7400", State: "leader", Leads: true, Token: 7, Lease: &left, Ready: true},
		{ID: "n3", Source: "10.0.0.3:7400", Error: "connection refused"},
	}}}})
	m.Apply(over("http://127.0.0.1:4040", "nightly", "web-1", leads("web-1", 41, noon().Add(-90*time.Second)), 1900, noon()))
	r := over("unix:/run/elect.sock", "nightly", "web-2", leads("web-1", 41, noon().Add(-90*time.Second)), -1, noon())
	r.Seen[0].Nodes[0].Ill, r.Seen[0].Nodes[0].Health = true, "ill"
	m.Apply(r)
	m.Apply(over("http://127.0.0.1:4042", "daily", "web-1", &State{}, -1, noon().Add(-2*time.Minute)))
	m.Judge(noon().Add(-2 * time.Minute))
	m.Expect("http://127.0.0.1:4041", Key{})
	m.Apply(Report{Source: "http://127.0.0.1:4041", At: noon(), Err: errors.New("dial tcp 127.0.0.1:4041: connect: connection refused")})
	m.Expect("etcd://10.0.0.9:2379#slow", Key{"etcd://10.0.0.9:2379", "slow"})
	for i := range 30 {
		m.Apply(over(fmt.Sprintf("http://127.0.0.1:%d", 5000+i), fmt.Sprintf("shard-%02d", i), "s\x1b[31m", leads("s\x1b[31m", elect.Token(i+1), noon().Add(-time.Duration(i)*time.Minute)), 2500, noon()))
	}
	m.Judge(noon())
	return m
}

// TestPictures compares pictures with the files of testdata; -rewrite writes them.
func TestPictures(t *testing.T) {
	for name, c := range map[string]struct {
		width, height int
		colour        bool
		keys          []string
	}{
		"80x24":        {80, 24, false, nil},
		"120x40":       {120, 40, true, []string{"s"}},
		"detail-80x24": {80, 24, false, []string{"G", "k", "k", "k", "j", "g", "j", "j", "\r"}},
		"end-80x24":    {80, 24, false, []string{"G"}},
		"tiny-20x4":    {20, 4, false, nil},
	} {
		m, v := world(), &View{Colour: c.colour}
		lines := m.Picture(v, noon(), c.width, c.height)
		for _, key := range c.keys {
			v.Key(key)
			lines = m.Picture(v, noon(), c.width, c.height)
		}
		asPictured(t, name, lines, c.width, c.height)
	}
}

// asPictured compares lines with a file of testdata, and their sizes with a screen's.
func asPictured(t *testing.T, name string, lines []string, width, height int) {
	t.Helper()
	for _, l := range lines {
		if plain := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[31;1m", "", "\x1b[33;1m", "", "\x1b[0m", "").Replace(l); utf8.RuneCountInString(plain) > width || strings.Contains(plain, "\x1b") {
			t.Errorf("%s: %q is wider than %d or has more than colours", name, l, width)
		}
	}
	if len(lines) > height {
		t.Errorf("%s: %d lines", name, len(lines))
	}
	got := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "\x1b", "^")
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != got {
		t.Errorf("%s: %v\n%s", name, err, got)
	}
}

// TestSelection: the selected row is on the screen, whatever keys are pressed and whatever elections come and go.
func TestSelection(t *testing.T) {
	m, v := world(), &View{}
	for i, key := range strings.Split("j j j G k g "+screen.KeyDown+" s s G s s x q", " ") {
		lines := m.Picture(v, noon(), 80, 10+i)
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "> ") }) {
			t.Fatalf("before %q nothing is selected:\n%s", key, strings.Join(lines, "\n"))
		}
		if quit := v.Key(key); quit != (key == "q") {
			t.Fatalf("%q quits: %v", key, quit)
		}
	}
	var none Model
	if none.Picture(v, noon(), 80, 24); v.Key("j") || v.Key("\r") {
		t.Error("a key quits")
	}
}

// TestMoves: a participant that is restarted with another election is removed from the first one. The last state of one
// that ends stays, marked as old.
func TestMoves(t *testing.T) {
	var m Model
	m.Apply(over("http://x", "a", "i", leads("i", 1, noon()), 900, noon()))
	m.Apply(over("http://x", "b", "i", leads("i", 5, noon()), 900, noon()))
	m.Apply(over("http://x", "b", "i", leads("j", 6, noon()), -1, noon()))
	if d := m.Document(noon()); len(d.Elections) != 1 || d.Elections[0].Name != "b" || d.Elections[0].Changes != 1 {
		t.Errorf("%+v", d.Elections)
	}
	m.Apply(Report{Source: "http://x", At: noon(), Err: errors.New("gone")})
	d := m.Document(noon())
	if e := d.Elections[0]; e.Leader.ID != "j" || !e.Stale || e.Cause != "gone" || e.Nodes[0].Error != "gone" || d.Sources[0].Error != "gone" {
		t.Errorf("%+v", e)
	}
}

// TestMerge: what peers say of a node and what it says of itself are one node, whichever comes first. It is ready if both
// say so, and its health is what it says of itself. Nodes are in the order of ids.
func TestMerge(t *testing.T) {
	peers := Key{"peer://n1@10.0.0.1:7400", "e"}
	byPeers := Report{Source: "P", At: noon(), Seen: []Seen{{Key: peers, Nodes: []Node{
		{ID: "n2", Source: "10.0.0.2:7400", State: "follower", Ready: true},
		{ID: "n1", Source: "10.0.0.1:7400", State: "leader", Leads: true, Token: 1, Ready: true},
	}}}}
	for answer, want := range map[string]string{
		`"state":"leader"`:                         "n1 leader true false ",
		`"state":"leader","health":"well"`:         "n1 leader true false well",
		`"state":"leader","health":"\u001b"`:       "n1 leader true false ",
		`"state":"idle","ill":true,"health":"ill"`: "n1 leader false true ill",
		`"state":"idle","ill":true`:                "n1 leader false true ill",
	} {
		seen, err := decode("unix:s", []byte(`[{"election":"peer://n1@10.0.0.1:7400?data=/x","name":"e","id":"n1","leader":{"id":"n1","token":"1"},`+answer+`}]`))
		if err != nil {
			t.Fatal(err)
		}
		byItself := Report{Source: "unix:s", At: noon(), Whole: true, Seen: seen}
		for _, order := range [][]Report{{byPeers, byItself}, {byItself, byPeers}} {
			var m Model
			m.Apply(order[0])
			m.Apply(order[1])
			m.Judge(noon())
			d := m.Document(noon())
			if len(d.Elections) != 1 || len(d.Elections[0].Nodes) != 2 || d.Elections[0].Nodes[1].ID != "n2" || len(d.Alerts) != 0 {
				t.Fatalf("%+v, %+v", d.Elections[0], d.Alerts)
			}
			n := d.Elections[0].Nodes[0]
			if got := fmt.Sprint(n.ID, " ", n.State, " ", n.Ready, " ", n.Ill, " ", n.Health); got != want {
				t.Errorf("%s: %s; want %s", answer, got, want)
			}
		}
	}
}

// TestTrouble: each cause is told once, and one form tells that a source is silent.
func TestTrouble(t *testing.T) {
	peers := Key{"peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400", "e"}
	for cause, want := range map[string]string{
		"n1@10.0.0.1:7400: dial: refused; n2@10.0.0.2:7400: no leader": "n1@10.0.0.1:7400: dial: refused; n2@10.0.0.2:7400: no leader",
		"no majority": "no majority; n1: connection refused",
	} {
		var m Model
		m.Apply(Report{Source: "P", At: noon(), Seen: []Seen{{Key: peers, State: &State{Stale: true, Cause: cause}, Nodes: []Node{
			{ID: "n1", Source: "10.0.0.1:7400", Error: "connection refused"}, {ID: "n2", Source: "10.0.0.2:7400"},
		}}}})
		if got := m.lines(noon())[0].cells[8]; got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	var m Model
	m.Expect("http://x", Key{})
	m.GiveUp(errors.New("no answer within 5s"), noon())
	m.Apply(Report{Source: "http://y", At: noon(), Err: errors.New("no answer within 5s")})
	m.Apply(Report{Source: "file:/z", At: noon(), Err: ErrNone})
	for i, want := range []string{"(no election) no election was held there", "(no answer) no answer within 5s", "(no answer) no answer within 5s"} {
		if l := m.lines(noon())[i]; l.cells[1]+" "+l.cells[8] != want {
			t.Errorf("%q; want %s", l.cells, want)
		}
	}
}

// TestLease: a reading is shown as it is, also in JSON, and is not known when it is old.
func TestLease(t *testing.T) {
	m := Model{Fresh: 2 * time.Second}
	m.Apply(over("http://x", "e", "i", leads("i", 1, noon()), 891, noon()))
	for after, want := range map[time.Duration]string{0: "891ms", 2 * time.Second: "891ms", 2*time.Second + 1: "-"} {
		m.Apply(over("http://x", "e", "i", leads("i", 1, noon()), 891, noon()))
		now := noon().Add(after)
		row := m.lines(now)[0].cells[4]
		text, err := json.Marshal(m.Document(now))
		if err != nil || row != want || strings.Contains(string(text), `"lease_left_ms":891`) != (want == "891ms") {
			t.Errorf("after %v: %s, %s, %v; want %s", after, row, text, err, want)
		}
	}
}

func TestAsk(t *testing.T) {
	answer := `[{"election":"file:/x","name":"n","leader":{"id":"a","token":"3"},"stale":false,"id":"a","state":"leader","lease_left_ms":800}]`
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	p, err := NewParticipant(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := p.ask(t.Context())
	if r.Err != nil || len(r.Seen) != 1 || !r.Seen[0].Nodes[0].Leads || r.Seen[0].Nodes[0].Token != 3 || *r.Seen[0].Nodes[0].Lease != 800 {
		t.Errorf("%+v", r)
	}
	answer = "<html>"
	if r = p.ask(t.Context()); r.Err == nil || r.Whole {
		t.Errorf("%+v", r)
	}
	if status = http.StatusNotFound; p.ask(t.Context()).Err == nil {
		t.Error("404 is an answer")
	}
}

// TestAddress: an address that is refused is named by its host alone.
func TestAddress(t *testing.T) {
	for address, want := range map[string]string{
		"unix:":                           "unix: names no socket",
		"http://":                         "http:// does not parse",
		"http://%zz":                      "http://%zz does not parse",
		"http://u:secret@h:1":             "http://…@h:1 has a user",
		"http://u:1?secret@h:1":           "http://… has a user",
		"http://u:x/secret@h:1":           "http://… does not parse",
		"https://h:1?token=secret":        "https://h:1 has a query or a fragment",
		"https://h:1/secret#x":            "https://h:1 has a query or a fragment",
		"http://h:1/p?":                   "http://h:1 has a query or a fragment",
		"http://127.0.0.1:x?token=secret": "http://127.0.0.1:x does not parse",
	} {
		if _, err := NewParticipant(address); err == nil || !strings.HasPrefix(err.Error(), want+";") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %s", address, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[{"name":"n","id":"a","state":"leader","leader":{"id":"a","token":"3"},"lease_left_ms":-1}]`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		seen, err := decode("http://x", text)
		if err != nil {
			return
		}
		var m Model
		m.Apply(Report{Source: "http://x", At: noon(), Whole: true, Seen: seen})
		m.Judge(noon())
		m.Picture(&View{}, noon(), 80, 24)
	})
}

// BenchmarkPicture is one second of a hundred elections: a report of each, and a picture after it.
func BenchmarkPicture(b *testing.B) {
	var m Model
	v := &View{}
	for b.Loop() {
		for i := range 100 {
			m.Apply(over(fmt.Sprint("http://h:", i), fmt.Sprint("e", i), "a", leads("a", 1, noon()), 900, noon()))
			m.Judge(noon())
			m.Picture(v, noon(), 120, 40)
		}
	}
}
