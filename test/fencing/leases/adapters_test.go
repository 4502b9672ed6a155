//go:build linux && cgo

package leases_test

import (
	"context"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// after waits until the next candidate leads, and fails if the one before it has worked since. It returns how long it
// took from was on.
func (n *goNative) after(ctx context.Context, t *testing.T, before *goNative, was time.Time) time.Duration {
	t.Helper()
	first := n.leads(ctx, t)
	if last := time.Unix(0, before.last.Load()); !last.Before(first) {
		t.Errorf("the leader before worked until %v after the next one began", last.Sub(first))
	}
	return first.Sub(was).Round(time.Millisecond)
}

// waits fails if a candidate leads within d.
func (n *goNative) waits(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-n.stamps:
		t.Fatal("it leads beside another")
	case <-n.ended:
		t.Fatal("it has ended")
	case <-time.After(d):
	}
}

// wakes lets a frozen leader go on, and returns for how long it takes itself for the leader, and ends.
func (n *goNative) wakes(t *testing.T) time.Duration {
	t.Helper()
	woken := time.Now()
	n.signal(t, syscall.SIGCONT)
	select {
	case <-n.ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	return max(time.Unix(0, n.last.Load()).Sub(woken), 0)
}

// TestKubernetesDropIn has the candidate of client-go beside the same program with the import of
// adapter/leaderelection, on one Lease. Nobody works beside another after a handover.
func TestKubernetesDropIn(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	k, ours := server.StartKubernetes(t), server.DropIn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	native := server.ClientGo(t)

	t.Run("handovers", func(t *testing.T) {
		t.Parallel()
		first := startGo(t, ours, k, "h", "ours-1", quickNative, "-release")
		first.leads(ctx, t)
		second := startGo(t, native, k, "h", "native-1", quickNative)
		second.waits(t, 7*time.Second)
		was := time.Now()
		first.end(t, syscall.SIGTERM)
		took := second.after(ctx, t, first, was)
		if took > 2*time.Second {
			t.Errorf("client-go leads %v after a release", took)
		}
		third := startGo(t, ours, k, "h", "ours-2", quickNative)
		third.waits(t, 7*time.Second)
		was = time.Now()
		second.end(t, syscall.SIGKILL)
		died := third.after(ctx, t, second, was)
		fourth := startGo(t, ours, k, "h", "ours-3", quickNative)
		fourth.waits(t, time.Second)
		was = time.Now()
		third.end(t, syscall.SIGTERM)
		own := fourth.after(ctx, t, third, was)
		if own > 2*time.Second {
			t.Errorf("the drop-in leads %v after a release, without ReleaseOnCancel; want it at once, because the work has returned", own)
		}
		t.Logf("client-go after a release: %v; the drop-in after a release: %v, and after SIGKILL of client-go: %v", took, own, died)
	})
	t.Run("frozen", func(t *testing.T) {
		t.Parallel()
		first := startGo(t, ours, k, "f", "ours", quickNative)
		first.leads(ctx, t)
		second := startGo(t, native, k, "f", "native", quickNative)
		second.waits(t, 2*time.Second)
		was := time.Now()
		first.signal(t, syscall.SIGSTOP)
		took := second.after(ctx, t, first, was)
		belief := first.wakes(t)
		if belief > 500*time.Millisecond {
			t.Errorf("it works for %v after it woke, beside client-go", belief)
		}
		t.Logf("client-go leads after %v; the drop-in worked for %v after it woke", took, belief)
	})
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		first := startGo(t, ours, k, "d", "ours-1", quickNative)
		first.leads(ctx, t)
		second := startGo(t, ours, k, "d", "ours-2", quickNative)
		second.waits(t, 2*time.Second)
		was := time.Now()
		k.Do(t, http.MethodDelete, leasesPath+"/d", nil)
		t.Logf("the next one leads after %v", second.after(ctx, t, first, was))
		<-first.ended
	})
}

// TestKubernetesOperator has replicas of a manager of controller-runtime, of which one reconciles at a time.
func TestKubernetesOperator(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	k, bin := server.StartKubernetes(t), server.Operator(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	k.Do(t, http.MethodPost, "/api/v1/namespaces/default/configmaps", map[string]any{"metadata": map[string]any{"name": "watched"}})
	start := func(id string) *goNative {
		cmd := exec.Command(bin, "-kubeconfig", k.Config(t, "admin", ""), "-name", "o", "-id", id, "-lease", "3s")
		cmd.Stderr = t.Output()
		return startStamps(t, cmd)
	}
	a := start("a")
	a.leads(ctx, t)
	b := start("b")
	b.waits(t, 5*time.Second)
	was := time.Now()
	a.end(t, syscall.SIGTERM)
	graceful := b.after(ctx, t, a, was)
	if graceful > 2*time.Second || a.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("b reconciles %v after a was told to end, which ended with %d", graceful, a.cmd.ProcessState.ExitCode())
	}
	c := start("c")
	c.waits(t, 2*time.Second)
	was = time.Now()
	b.end(t, syscall.SIGKILL)
	killed := c.after(ctx, t, b, was)
	d := start("d")
	d.waits(t, 2*time.Second)
	was = time.Now()
	c.signal(t, syscall.SIGSTOP)
	frozen := d.after(ctx, t, c, was)
	belief := c.wakes(t)
	if belief > 0 || c.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("c reconciles for %v after it woke, and ended with %d; want 0s, because it asks Check, and 1", belief, c.cmd.ProcessState.ExitCode())
	}
	t.Logf("the next one reconciles %v after SIGTERM, %v after SIGKILL, %v after SIGSTOP", graceful, killed, frozen)
}
