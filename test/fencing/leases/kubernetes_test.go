//go:build linux && cgo

package leases_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/kubernetes"
	"github.com/electd/elect/test/fencing/server"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

// leaseURL is an election in the namespace default, as a user of the cluster.
func leaseURL(t testing.TB, k *server.Kubernetes, user, addr, times string) string {
	t.Helper()
	return "kubernetes://default?" + times + "&kubeconfig=" + url.QueryEscape(k.Config(t, user, addr))
}

// openLease opens the participant id of the election "e" in this process.
func openLease(t *testing.T, at, name, id string) (local, error) {
	t.Helper()
	e, err := kubernetes.Open(t.Context(), driver.Target{URL: parse(t, at), Name: name, ID: id})
	if err != nil {
		return local{}, err
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return local{e, t}, nil
}

func mustOpenLease(t *testing.T, at, name, id string) local {
	t.Helper()
	l, err := openLease(t, at, name, id)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// spawnLease opens a participant in a process of its own, which can be cut off.
func spawnLease(t testing.TB, k *server.Kubernetes, namespace, times, name, id string) electtest.Participant {
	t.Helper()
	return behindCable(t, k.Addr, func(addr string) string {
		return strings.Replace(leaseURL(t, k, "admin", addr, times), "default", namespace, 1)
	}, name, id)
}

// TestKubernetesConformance has each participant in a process of its own, at a real kube-apiserver. The era is not
// raised when the Lease is deleted: tokens rise all the same.
func TestKubernetesConformance(t *testing.T) {
	long.Full(t, "it takes minutes; the same suite runs in fake time in store/kubernetes")
	k := server.StartKubernetes(t)
	namespaces := map[testing.TB]string{} // of the cases
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if namespaces[t] == "" {
			namespaces[t] = fmt.Sprintf("case-%d", len(namespaces))
			k.Do(t, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespaces[t]}})
		}
		return spawnLease(t, k, namespaces[t], times, name, id)
	}, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses no single answer; the tests of store/kubernetes do",
			electtest.Delay: "as Lose",
		},
		Candidates: 5,
		Restart:    restarts(k),
		Recreate: func(t testing.TB) {
			k.Do(t, http.MethodDelete, strings.Replace(leasesPath, "default", namespaces[t], 1), nil)
		},
	})
}

// specOf is the spec of the Lease.
func specOf(t *testing.T, k *server.Kubernetes, name string) map[string]any {
	t.Helper()
	lease := k.Lease(t, name)
	if lease == nil {
		return nil
	}
	return lease["spec"].(map[string]any)
}

// change changes a Lease as kubectl edit does.
func change(t *testing.T, k *server.Kubernetes, name string, do func(lease map[string]any)) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		lease := k.Lease(t, name)
		do(lease)
		if k.Put(t, leasesPath+"/"+name, lease) { // else the leader has renewed in between
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the Lease cannot be changed")
		}
	}
}

// TestKubernetesByHand has a leader whose Lease is deleted, emptied or changed by hand. Its term ends, the next one is
// not proven before that, and its token is greater, without a raised era.
func TestKubernetesByHand(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := server.StartKubernetes(t)
	at := leaseURL(t, k, "admin", "", "lease=2s&max_lease=4s")
	spec := func(field string, value any) func(t *testing.T, name string) {
		return func(t *testing.T, name string) {
			change(t, k, name, func(lease map[string]any) { lease["spec"].(map[string]any)[field] = value })
		}
	}
	for name, do := range map[string]func(t *testing.T, name string){
		"deleted": func(t *testing.T, name string) { k.Do(t, http.MethodDelete, leasesPath+"/"+name, nil) },
		"emptied": spec("holderIdentity", ""),
		"seized":  spec("holderIdentity", "somebody"),
		"stripped": func(t *testing.T, name string) {
			change(t, k, name, func(lease map[string]any) { delete(lease["metadata"].(map[string]any), "annotations") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			a, b := mustOpenLease(t, at, name, "a"), mustOpenLease(t, at, name, "b")
			m := a.campaign(ctx)
			do(t, name)
			next := b.campaigns(ctx)
			lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
			released(t, m)
			n := <-next
			if n == nil {
				t.FailNow()
			}
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			if holder := specOf(t, k, name)["holderIdentity"].(string); !strings.HasPrefix(holder, "b_") {
				t.Errorf("the holder is %s; want b", holder)
			}
			released(t, n)
			if holder := specOf(t, k, name)["holderIdentity"]; holder != "" {
				t.Errorf("the holder of a released Lease is %v", holder)
			}
		})
	}
}

// TestKubernetesManaged: a Lease whose holder Kubernetes chooses is refused, at the start and under a leader.
func TestKubernetesManaged(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := server.StartKubernetes(t, "--feature-gates=CoordinatedLeaderElection=true")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	at := leaseURL(t, k, "admin", "", times)
	m := mustOpenLease(t, at, "e", "a").campaign(ctx)
	change(t, k, "e", func(lease map[string]any) { lease["spec"].(map[string]any)["strategy"] = "OldestEmulationVersion" })
	lost(t, ctx, m, driver.ErrUnreachable, driver.ErrExpired)
	released(t, m)
	if _, err := openLease(t, at, "e", "b"); err == nil || !driver.IsPermanent(err) || !errors.Is(err, kubernetes.ErrRefused) || !strings.Contains(err.Error(), "spec.strategy") {
		t.Errorf("%v; want a refusal of the strategy", err)
	}
}

// TestKubernetesRights: a user without rights is refused, deploy/kubernetes/role.yaml gives enough, and without the
// right to watch an election goes on.
func TestKubernetesRights(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := server.StartKubernetes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	grant := func(verbs ...string) {
		role := map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "elect", "namespace": "default"},
			"rules": []any{map[string]any{"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"}, "verbs": verbs}},
		}
		k.Put(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/elect", role)
	}
	k.Do(t, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "elect"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "elect"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "job"}},
	})
	at := leaseURL(t, k, "job", "", times)
	for user, want := range map[string]string{"nobody": `User "nobody" cannot get`, "stranger": "want a token"} {
		_, err := openLease(t, leaseURL(t, k, user, "", times), "e", "a")
		if err == nil || !driver.IsPermanent(err) || !errors.Is(err, kubernetes.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("user %s: %v; want a refusal with %q", user, err, want)
		}
	}
	for _, step := range []struct {
		verbs []string
		want  string // of the campaign; "": it wins
	}{
		{[]string{"get", "watch"}, "may not create and update"},
		{[]string{"get", "create", "update"}, ""},
		{roleVerbs(t), ""},
	} {
		grant(step.verbs...)
		var err error
		for { // Kubernetes notices a changed Role a little later
			var l local
			if l, err = openLease(t, at, "e", "a"); err == nil {
				var m driver.Mandate
				if m, err = l.Campaign(ctx, driver.Candidacy{Exclusive: true}); err == nil {
					released(t, m)
				}
				_ = l.Close()
			}
			if (step.want == "") == (err == nil) && (err == nil || strings.Contains(err.Error(), step.want)) || ctx.Err() != nil {
				break
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("%v: %v; want %q", step.verbs, err, step.want)
		}
	}
}

// roleVerbs are those of deploy/kubernetes/role.yaml.
func roleVerbs(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "kubernetes", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "verbs: [")
	list, _, found := strings.Cut(after, "]")
	if !found {
		t.Fatal("role.yaml has no verbs")
	}
	return strings.Split(strings.ReplaceAll(list, " ", ""), ",")
}

// TestKubernetesRestarted: a leader keeps its term while the kube-apiserver is started again, and while it hangs for
// less than a lease; candidates watch again.
func TestKubernetesRestarted(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := server.StartKubernetes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	at := leaseURL(t, k, "admin", "", "lease=40s&max_lease=40s&poll=40s")
	m := mustOpenLease(t, at, "e", "a").campaign(ctx)
	next := mustOpenLease(t, at, "e", "b").campaigns(ctx)
	k.Kill(t)
	k.Start(t)
	k.Pause(t, true)
	<-time.After(10 * time.Second)
	k.Pause(t, false)
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Fatalf("%v; want it to lead on", err)
	}
	<-time.After(5 * time.Second) // the watch is there again
	was := time.Now()
	released(t, m)
	n := <-next
	if n == nil {
		t.FailNow()
	}
	if took := time.Since(was); took > 5*time.Second {
		t.Errorf("the next one leads %v after a release; want it to watch, because it reads every 40 s", took)
	}
	if n.Token() <= m.Token() {
		t.Errorf("token %v after %v", n.Token(), m.Token())
	}
	released(t, n)
}

// goNative is a candidate of client-go, in a process of its own.
type goNative struct {
	cmd    *exec.Cmd
	stamps chan time.Time // while it takes itself for the leader; the last ones are kept
	ended  chan struct{}
	last   atomic.Int64
}

// startGoNative starts one with a lease, a renew deadline and a retry period.
func startGoNative(t *testing.T, k *server.Kubernetes, name, id string, times [3]time.Duration, more ...string) *goNative {
	t.Helper()
	return startGo(t, server.ClientGo(t), k, name, id, times, more...)
}

// startGo starts a program with the flags of the candidate of client-go.
func startGo(t *testing.T, bin string, k *server.Kubernetes, name, id string, times [3]time.Duration, more ...string) *goNative {
	t.Helper()
	return startStamps(t, exec.Command(bin, append([]string{
		"-kubeconfig", k.Config(t, "admin", ""), "-namespace", "default", "-name", name, "-id", id,
		"-lease", times[0].String(), "-renew", times[1].String(), "-retry", times[2].String(),
	}, more...)...))
}

// startStamps starts a program that writes stamps while it leads.
func startStamps(t *testing.T, cmd *exec.Cmd) *goNative {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &goNative{cmd: cmd, stamps: make(chan time.Time, 1), ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		for in := bufio.NewScanner(out); in.Scan(); {
			if ns, err := strconv.ParseInt(in.Text(), 10, 64); err == nil {
				n.last.Store(ns)
				select {
				case n.stamps <- time.Unix(0, ns):
				default:
				}
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { n.end(t, syscall.SIGKILL) })
	return n
}

func (n *goNative) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

func (n *goNative) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	n.signal(t, sig)
	<-n.ended
}

// leads waits until it takes itself for the leader.
func (n *goNative) leads(ctx context.Context, t *testing.T) time.Time {
	t.Helper()
	select {
	case at := <-n.stamps:
		return at
	case <-n.ended:
		t.Fatal("client-go has ended")
	case <-ctx.Done():
		t.Fatal("client-go does not lead")
	}
	return time.Time{}
}

// quick are times of client-go in the ratio of its defaults.
var quickNative = [3]time.Duration{3 * time.Second, 2 * time.Second, 400 * time.Millisecond}

// TestKubernetesNatives has candidates of client-go and of elect in one election. Each side waits for the other, and
// takes over after a release and after a death. Tokens rise over it.
func TestKubernetesNatives(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := server.StartKubernetes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	at := leaseURL(t, k, "admin", "", "lease=3s&max_lease=3s")

	// client-go leads. Ours waits, sees it, and leads when it has ended and its lease is over.
	first := startGoNative(t, k, "e", "native_1", quickNative)
	first.leads(ctx, t)
	ours := mustOpenLease(t, at, "e", "ours")
	won := ours.campaigns(ctx)
	select {
	case m := <-won:
		t.Fatalf("%v leads beside client-go", m)
	case <-time.After(7 * time.Second):
	}
	for s, err := range ours.Watch(ctx) {
		if err != nil || s.Leader == nil || s.Leader.ID != "native_1" {
			t.Errorf("%+v, %v; want client-go's leader", s, err)
		}
		break
	}
	resigning, stop := context.WithTimeout(ctx, 2*time.Second)
	if err := ours.Elector.(driver.Resigner).Resign(resigning, 0); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("%v; want a leader of client-go not to be asked", err)
	}
	stop()
	killed := time.Now()
	first.end(t, syscall.SIGKILL)
	m := <-won
	if m == nil {
		t.FailNow()
	}
	t.Logf("elect leads %v after client-go was killed, with a lease of 3 s", time.Since(killed).Round(time.Millisecond))

	// client-go waits, as long as elect's renews; it knows the release, and leads at once.
	second := startGoNative(t, k, "e", "native_2", quickNative)
	select {
	case <-second.stamps:
		t.Fatal("client-go leads beside elect")
	case <-time.After(7 * time.Second):
	}
	if err := m.Check(); err != nil {
		t.Fatalf("%v; want it to lead on while client-go waits", err)
	}
	t.Run("kubectl", func(t *testing.T) { // it shows who leads, and for how long after the last renewal at most
		kubectl, err := exec.LookPath("kubectl")
		if err != nil {
			t.Skip("there is no kubectl in PATH: what it shows of a Lease is not compared")
		}
		out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", k.Config(t, "admin", ""), "--cache-dir", t.TempDir(),
			"get", "lease", "e", "-o", "jsonpath={.spec.holderIdentity} {.spec.leaseDurationSeconds}").CombinedOutput()
		if holder, lease, _ := strings.Cut(string(out), " "); err != nil || !strings.HasPrefix(holder, "ours_") || lease != "3" {
			t.Errorf("%v, %s; want the holder ours_… and its lease of 3 s", err, out)
		}
	})
	transitions := specOf(t, k, "e")["leaseTransitions"].(float64)
	was := time.Now()
	released(t, m)
	if leads := second.leads(ctx, t).Sub(was); leads > 2*time.Second {
		t.Errorf("client-go leads %v after a release", leads)
	}
	if is := specOf(t, k, "e")["leaseTransitions"].(float64); is <= transitions {
		t.Errorf("%v transitions after %v", is, transitions)
	}

	// It releases by ReleaseOnCancel, if it has that: an emptied Lease names nobody, so elect waits.
	second.end(t, syscall.SIGKILL)
	n := ours.campaign(ctx)
	if n.Token() <= m.Token() {
		t.Errorf("token %v after %v, with client-go in between", n.Token(), m.Token())
	}
	third := startGoNative(t, k, "e", "native_3", quickNative, "-release")
	released(t, n)
	third.leads(ctx, t)
	was = time.Now()
	third.end(t, syscall.SIGTERM)
	last := ours.campaign(ctx)
	if took := time.Since(was); took < 3*time.Second {
		t.Errorf("elect leads %v after client-go has emptied the Lease; want it to wait for the longest lease", took)
	}
	released(t, last)
}

// TestKubernetesNativeOverlaps: a leader of client-go that was frozen takes itself for the leader when it goes on,
// beside elect's. The other way round there is no overlap. It is what docs/kubernetes.md says.
func TestKubernetesNativeOverlaps(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := server.StartKubernetes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const own = "lease=3s&max_lease=3s"
	native := startGoNative(t, k, "e", "native", quickNative)
	native.leads(ctx, t)
	won := mustOpenLease(t, leaseURL(t, k, "admin", "", own), "e", "ours").campaigns(ctx)
	native.signal(t, syscall.SIGSTOP)
	m := <-won
	if m == nil {
		t.FailNow()
	}
	woken := time.Now()
	native.signal(t, syscall.SIGCONT)
	<-time.After(2 * time.Second)
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	belief := time.Unix(0, native.last.Load()).Sub(woken)
	if belief <= 0 {
		t.Error("client-go does not take itself for the leader after a pause: correct docs/kubernetes.md")
	}
	t.Logf("client-go believes for %v that it leads, beside elect's leader", belief.Round(time.Millisecond))
	native.end(t, syscall.SIGKILL)
	released(t, m)

	p := spawnLease(t, k, "default", own, "e", "frozen")
	if m, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true}); err != nil {
		t.Fatal(err)
	} else {
		native = startGoNative(t, k, "e", "native-2", quickNative)
		p.Freeze(true)
		native.leads(ctx, t)
		p.Freeze(false)
		if err := m.Check(); err == nil {
			t.Error("it is proven right after it woke, while client-go leads")
		}
		lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
		released(t, m)
	}
}

// TestKubernetesTakeovers measures takeovers of elect and of client-go with the same lease, in turn, after SIGKILL and
// after SIGSTOP.
func TestKubernetesTakeovers(t *testing.T) {
	long.Full(t, "it measures on a machine that is not busy")
	rounds := 5
	k := server.StartKubernetes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	native := [3]time.Duration{2 * time.Second, 1500 * time.Millisecond, 250 * time.Millisecond}
	took := map[string][]time.Duration{}
	for round := range rounds {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
			name := fmt.Sprintf("n%d-%d", round, sig)
			one := startGoNative(t, k, name, "a", native)
			one.leads(ctx, t)
			two := startGoNative(t, k, name, "b", native)
			<-time.After(time.Second + time.Duration(round)*100*time.Millisecond)
			was := time.Now()
			one.signal(t, sig)
			two.leads(ctx, t)
			took["client-go "+sig.String()] = append(took["client-go "+sig.String()], time.Since(was))
			one.end(t, syscall.SIGKILL)
			two.end(t, syscall.SIGKILL)

			name = "o" + name[1:]
			p, q := spawnLease(t, k, "default", "lease=2s&max_lease=2s", name, "a"), spawnLease(t, k, "default", "lease=2s&max_lease=2s", name, "b")
			m, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if err != nil {
				t.Fatal(err)
			}
			won := local{q.Elector, t}.campaigns(ctx)
			<-time.After(time.Second + time.Duration(round)*100*time.Millisecond)
			was = time.Now()
			if sig == syscall.SIGKILL {
				p.Crash()
			} else {
				p.Freeze(true)
			}
			n := <-won
			if n == nil {
				t.FailNow()
			}
			took["elect "+sig.String()] = append(took["elect "+sig.String()], time.Since(was))
			if sig == syscall.SIGSTOP {
				p.Freeze(false)
				if m.Check() == nil {
					t.Error("it is proven right after it woke, while another leads")
				}
				released(t, m)
			}
			released(t, n)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(took)) {
		all := took[what]
		slices.Sort(all)
		t.Logf("%s: min %v median %v max %v of %d", what, all[0].Round(time.Millisecond), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), len(all))
	}
}
