//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/consul"
	"github.com/electd/elect/test/fencing/server"
)

// prefix is where the elections of one case are in Consul, and the era that its operator has given.
type prefix struct {
	consul *server.Consul
	path   string
	era    int
}

func newPrefix(c *server.Consul) *prefix {
	return &prefix{consul: c, path: fmt.Sprintf("test%d", prefixes.Add(1))}
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (p *prefix) url(addr string) string {
	if addr == "" {
		addr = p.consul.Addr
	}
	return fmt.Sprintf("consul://%s/%s?%s&era=%d", addr, p.path, times, p.era)
}

// participant opens one in a process of its own, behind a cable that can be cut.
func (p *prefix) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	return behindCable(t, p.consul.Addr, p.url, name, id)
}

// elector is a participant of the election "e" in this process.
func (p *prefix) elector(t *testing.T, id string, log *slog.Logger) local {
	t.Helper()
	return logged(t, p.url(""), id, log)
}

func (p *prefix) try(t *testing.T, id string, log *slog.Logger) (driver.Elector, error) {
	t.Helper()
	return consul.Open(t.Context(), driver.Target{URL: parse(t, p.url("")), Name: "e", ID: id, Logger: log})
}

// TestConsulConformance has each participant in a process of its own, at a real Consul.
func TestConsulConformance(t *testing.T) {
	c := server.StartConsul(t)
	of := perCase(func(t testing.TB) *prefix { return newPrefix(c) })
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses no single answer; the tests of store/consul do",
			electtest.Delay: "as Lose",
		},
		Candidates: 5,
		Restart:    restarts(c),
		Recreate: func(t testing.TB) {
			c.Do(t, http.MethodDelete, "/v1/kv/"+of(t).path+"?recurse", "")
			of(t).era++
		},
	})
}

// loses loses answers to writes.
type loses struct{ *loss }

func (l loses) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if r.Method != http.MethodPut {
		return resp, err
	}
	if err := l.of(err); err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		return nil, err
	}
	return resp, nil
}

// TestConsulAgreement: Consul answers as the simulator's register does.
func TestConsulAgreement(t *testing.T) {
	c := server.StartConsul(t)
	agrees(t, storetest.Register, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		p := newPrefix(c)
		participant := func(id string, l *loss) driver.Elector {
			e, err := consul.New(t.Context(), consul.Agent{Address: "http://" + c.Addr, HTTP: &http.Client{Transport: loses{l}}}, "e", id,
				consul.Config{Key: p.path + "/e", Lease: time.Hour, MaxLease: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		return participant, func(protocol.Entry) { c.Do(t, http.MethodDelete, "/v1/kv/"+p.path+"/e", "") }
	})
}

// lock runs consul lock, which holds PREFIX/.lock as api.Lock does, with the flag of locks and a session. It returns when
// that is held. ended is closed when the program has ended.
func (p *prefix) lock(t *testing.T) (key string, ended <-chan struct{}) {
	t.Helper()
	held := p.consul.Command("lock", p.path, "echo held; exec sleep 1000")
	held.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	said, end := &harness.Buffer{}, make(chan struct{})
	held.Stdout, held.Stderr = said, said
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(end); _ = held.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-held.Process.Pid, syscall.SIGKILL); <-end })
	harness.Eventually(t, "consul lock holds "+p.path, func() bool { return strings.Contains(said.String(), "held") })
	return p.path + "/.lock", end
}

// session makes a session of Consul.
func (p *prefix) session(t *testing.T) (id string) {
	t.Helper()
	var session struct{ ID string }
	if err := json.Unmarshal([]byte(p.consul.Do(t, http.MethodPut, "/v1/session/create", `{"TTL":"60s"}`)), &session); err != nil {
		t.Fatal(err)
	}
	return session.ID
}

// lockFlag is that of Consul's own locks.
const lockFlag = uint64(0x2ddccbc058a50c18)

// TestConsulMoves goes from consul lock to elect. Beside each other both lead, on different keys. The session of the lock
// is destroyed by hand, and its command ends; nobody acquires the lock before the lock-delay is over. On the lock's own
// key elect is refused until that is deleted. Then it leads there, and consul lock is refused.
func TestConsulMoves(t *testing.T) {
	c := server.StartConsul(t)
	p := newPrefix(c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	key, ended := p.lock(t)
	released(t, p.elector(t, "beside", nil).campaign(ctx))

	var held []struct{ Session string }
	if err := json.Unmarshal([]byte(c.Do(t, http.MethodGet, "/v1/kv/"+key, "")), &held); err != nil || len(held) != 1 {
		t.Fatalf("%v, %v; want the key of the lock", held, err)
	}
	begun := time.Now()
	c.Do(t, http.MethodPut, "/v1/session/destroy/"+held[0].Session, "")
	<-ended
	acquire := fmt.Sprintf("/v1/kv/%s?flags=%d&acquire=%s", key, lockFlag, p.session(t))
	harness.Eventually(t, "the lock-delay is over", func() bool {
		<-time.After(50 * time.Millisecond)
		return strings.TrimSpace(c.Do(t, http.MethodPut, acquire, "")) == "true"
	})
	if took := time.Since(begun); took < 15*time.Second {
		t.Errorf("another session acquires the lock after %v; want the lock-delay of 15 s", took)
	}
	c.Do(t, http.MethodPut, strings.Replace(acquire, "acquire", "release", 1), "")

	at := fmt.Sprintf("consul://%s?key=%s&%s", c.Addr, key, times)
	refuses(t, at, "has the flag of Consul's own locks")
	c.Do(t, http.MethodDelete, "/v1/kv/"+key, "")
	m := opened(t, at, "a").campaign(ctx)
	out, err := c.Command("lock", p.path, "echo held").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Existing key does not match lock use") || strings.Contains(string(out), "held") {
		t.Errorf("%v, %s; want consul lock to refuse a key of elect's", err, out)
	}
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Errorf("%v; want it to lead on", err)
	}
	released(t, m)
	if out, err := c.Command("lock", p.path, "echo held").CombinedOutput(); err == nil || strings.Contains(string(out), "held\n") {
		t.Errorf("%v, %s; want consul lock to refuse it when nobody leads, too", err, out)
	}
}

// TestConsulLocks: a key of Consul's own locks is refused, held or not. TestConsulMoves has the other direction.
func TestConsulLocks(t *testing.T) {
	c := server.StartConsul(t)
	refused := func(p *prefix, want string) {
		t.Helper()
		_, err := p.try(t, "a", nil)
		if !errors.Is(err, consul.ErrRefused) || !driver.IsPermanent(err) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want a refusal with %q, in one line", err, want)
		}
	}
	p := newPrefix(c)
	key, _ := p.lock(t)
	refuses(t, fmt.Sprintf("consul://%s?key=%s", c.Addr, key), "is held by session")
	// A key of a lock that nobody holds has the flag.
	p = newPrefix(c)
	c.Do(t, http.MethodPut, fmt.Sprintf("/v1/kv/%s/e?flags=%d", p.path, lockFlag), "")
	refused(p, "has the flag of Consul's own locks, 0x2ddccbc058a50c18")
	// A session acquires a key of elect's by hand, which ends the term: nobody knows what its holder does.
	p = newPrefix(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := p.elector(t, "a", nil).campaign(ctx)
	session := p.session(t)
	c.Do(t, http.MethodPut, "/v1/kv/"+p.path+"/e?acquire="+session, "mine")
	lost(t, ctx, m, driver.ErrExpired, driver.ErrUnreachable, driver.ErrSuperseded)
	refused(p, "is held by session "+session)
	released(t, m)
}

// TestConsulRestored: a snapshot is restored below a leader. It finds that the key has gone back, and ends its term; a
// candidate that lives through it waits for max_lease, and has a greater token.
func TestConsulRestored(t *testing.T) {
	c := server.StartConsul(t)
	p := newPrefix(c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	a, b := p.elector(t, "a", nil), p.elector(t, "b", nil)
	released(t, a.campaign(ctx))
	file := filepath.Join(t.TempDir(), "snapshot")
	if out, err := c.Command("snapshot", "save", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := a.campaign(ctx) // after the snapshot, which has the key free
	harness.Eventually(t, "b has seen the leader", func() bool {
		for s := range b.Watch(ctx) {
			return s.Leader != nil && s.Leader.Token == m.Token()
		}
		return false
	})
	var overlap atomic.Bool
	next := make(chan driver.Mandate, 1)
	go func() {
		n, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
		overlap.Store(m.Check() == nil)
		next <- n
	}()
	if out, err := c.Command("snapshot", "restore", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	restored := time.Now()
	lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired, driver.ErrUnreachable)
	t.Logf("the leader's term ended %v after the restore: %v", time.Since(restored), m.Check())
	released(t, m)
	n := <-next
	if n == nil {
		t.Fatal("the next one does not win")
	}
	t.Logf("the next one leads after %v", time.Since(restored))
	if overlap.Load() || n.Token() <= m.Token() {
		t.Errorf("token %v after %v, both proven: %t", n.Token(), m.Token(), overlap.Load())
	}
	released(t, n)
}

// TestConsulRights: a token without the right to read is refused at the start, one without that to write when it
// stands, and one with a policy for one key leads.
func TestConsulRights(t *testing.T) {
	c := server.StartConsulACL(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newPrefix(c)
	with := func(policy string) string {
		rules, _ := json.Marshal(map[string]string{"Name": fmt.Sprintf("p%d", prefixes.Add(1)), "Rules": policy})
		var made struct{ ID, SecretID string }
		if err := json.Unmarshal([]byte(c.Do(t, http.MethodPut, "/v1/acl/policy", string(rules))), &made); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.Do(t, http.MethodPut, "/v1/acl/token", fmt.Sprintf(`{"Policies":[{"ID":%q}]}`, made.ID))), &made); err != nil {
			t.Fatal(err)
		}
		return made.SecretID
	}
	file := filepath.Join(t.TempDir(), "token")
	open := func(token string) (driver.Elector, error) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		u := parse(t, p.url(""))
		u.RawQuery += "&token_file=" + url.QueryEscape(file)
		return consul.Open(t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
	}
	for _, token := range []string{"", "00000000-0000-4000-8000-00000000dead", with(`key "other" { policy = "write" }`)} {
		_, err := open(token)
		if !errors.Is(err, consul.ErrRefused) || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want a token") || token != "" && strings.Contains(err.Error(), token) {
			t.Errorf("%v; want a refusal, without the token", err)
		}
	}
	e, err := open(with(fmt.Sprintf(`key %q { policy = "read" }`, p.path+"/e")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true}); !errors.Is(err, consul.ErrRefused) || !strings.Contains(err.Error(), "write") {
		t.Errorf("%v; want a refusal of one that may not write", err)
	}
	found, err := e.(driver.Examiner).Examine(ctx)
	if text := fmt.Sprint(found); err != nil || !strings.Contains(text, "{rights missing") {
		t.Errorf("%s, %v; want rights that are missing", text, err)
	}
	// The file gets a new token, which the next refusal makes it read.
	if err := os.WriteFile(file, []byte(with(fmt.Sprintf(`key %q { policy = "write" }`, p.path+"/e"))), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	released(t, m)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// consulLeader returns the server that says that it leads, and another; nil if none does.
func consulLeader(ctx context.Context, all []*server.Consul) (chief, other *server.Consul) {
	for _, c := range all {
		_, says, _ := c.Ask(ctx, http.MethodGet, "/v1/agent/self", "")
		var self struct{ Stats map[string]map[string]string }
		if json.Unmarshal([]byte(says), &self) == nil && self.Stats["consul"]["leader"] == "true" {
			chief = c
		} else {
			other = c
		}
	}
	return chief, other
}

// TestConsulCluster has three servers. A leader keeps its term while the leader of the servers is killed and another
// one is chosen, or loses it in time; nobody leads beside it.
func TestConsulCluster(t *testing.T) {
	all := server.StartConsulCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	leads := func(of *server.Consul) string {
		_, says, _ := of.Ask(ctx, http.MethodGet, "/v1/status/leader", "")
		return says
	}
	server1 := leads(all[0])
	chief, other := consulLeader(ctx, all)
	if chief == nil {
		t.Fatalf("no server leads, and %s should", server1)
	}
	p := newPrefix(other)
	log := &bytes.Buffer{}
	u := parse(t, strings.Replace(p.url(""), "lease=2s&max_lease=2s", "lease=20s&max_lease=20s", 1))
	e, err := consul.Open(ctx, driver.Target{URL: u, Name: "e", ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	m := local{e, t}.campaign(ctx)
	chief.Kill(t)
	killed := time.Now()
	harness.Eventually(t, "another server leads", func() bool { s := leads(other); return s != server1 && len(s) > 3 })
	t.Logf("another server leads after %v", time.Since(killed))
	for { // a renewal that was acknowledged after that
		if err := m.(driver.Confirmer).Confirm(ctx); err == nil {
			break
		} else if m.Check() != nil {
			t.Fatalf("the term has ended: %v\n%s", m.Check(), log)
		}
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	released(t, m)
	if err := e.Close(); err != nil {
		t.Error(err)
	}

}

// TestConsulAgent has a leader behind an agent that is no server, as is usual. When the agent hangs, the term ends with
// its lease, and a candidate elsewhere leads.
func TestConsulAgent(t *testing.T) {
	c := server.StartConsul(t)
	p := newPrefix(c)
	agent := c.StartAgent(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := consul.Open(ctx, driver.Target{URL: parse(t, p.url(agent.Addr)), Name: "e", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	m := local{e, t}.campaign(ctx)
	b := p.elector(t, "b", nil)
	next := make(chan driver.Mandate, 1)
	go func() {
		n, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if n != nil && m.Check() == nil {
			t.Error("two are proven")
		}
		next <- n
	}()
	agent.Pause(t, true)
	paused := time.Now()
	lost(t, ctx, m, driver.ErrExpired)
	n := <-next
	if n == nil || n.Token() <= m.Token() {
		t.Fatalf("%v after %v", n, m.Token())
	}
	t.Logf("the next one leads after %v", time.Since(paused))
	agent.Pause(t, false)
	released(t, m)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Check(); err != nil {
		t.Errorf("the release of an old term ends the new one: %v", err)
	}
	released(t, n)
}
