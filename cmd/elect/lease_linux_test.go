package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/agent/lease"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// reader is a program that reads a lease page, and says for each line of its input what it sees.
type reader struct {
	name string
	in   io.Writer
	out  *bufio.Reader
}

// says asks the reader once.
func (r *reader) says(t *testing.T) string {
	t.Helper()
	_, err := io.WriteString(r.in, "\n")
	line, rerr := r.out.ReadString('\n')
	if err = errors.Join(err, rerr); err != nil {
		t.Fatalf("%s: %q, %v", r.name, line, err)
	}
	return strings.TrimSpace(line)
}

// readers starts one in each language that is installed, in CI in all of them; Java only among the long tests.
func readers(t *testing.T, env []string, page string) (all []*reader) {
	const dir = "../../examples/lease"
	c := filepath.Join(t.TempDir(), "lease")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", c, dir+"/lease.c").CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	programs := [][]string{{c}, {"python3", dir + "/lease.py"}, {"node", dir + "/lease.mjs"}}
	if long.Asked() { // it is compiled first
		programs = append(programs, []string{"java", dir + "/Lease.java"})
	}
	for _, argv := range programs {
		if _, err := exec.LookPath(argv[0]); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Logf("not tried, because it is not installed: %v", err)
			continue
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env, cmd.Stderr = append(env, lease.Env+"="+page), os.Stderr
		in, out := harness.Start(t, cmd)
		t.Cleanup(func() { harness.End(cmd) })
		all = append(all, &reader{argv[0], in, bufio.NewReader(out)})
	}
	return all
}

// TestLeaseReaders: in each language, the page of a leader is proven while it leads, and over when it is frozen beyond
// its lease, deposed, killed, or killed together with its keeper.
func TestLeaseReaders(t *testing.T) {
	for _, end := range []string{"frozen", "deposed", "killed", "killed with its keeper"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			env := environment(t)
			cmd := exec.Command("elect", "run", "--name", "pages", "--", "sh", "-c", `echo "$ELECT_LEASE"; exec sleep 1000`)
			cmd.Env, cmd.Stderr = env, os.Stderr
			_, out := harness.Start(t, cmd)
			t.Cleanup(func() { harness.End(cmd) })
			path, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			path = strings.TrimSpace(path)
			page, err := lease.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer page.Close()
			all := readers(t, env, path)
			for _, r := range all {
				// On a busy machine the keeper may be late to write, for once.
				harness.Eventually(t, r.name+" says that leadership is proven", func() bool { return r.says(t) == fmt.Sprint(page.Token(), " proven") })
			}
			switch end {
			case "frozen": // with its keeper
				for _, pid := range append([]int{cmd.Process.Pid}, harness.Children(cmd.Process.Pid)...) {
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
					defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
				}
			case "deposed":
				resign := exec.Command("elect", "resign", "pages")
				resign.Env = env
				if out, err := resign.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			case "killed":
				_ = cmd.Process.Kill()
			case "killed with its keeper": // and then the command, which nobody ends
				for _, pid := range append([]int{cmd.Process.Pid}, harness.Descendants(cmd.Process.Pid)...) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			harness.Eventually(t, "the page is over", func() bool {
				_, err := os.Stat(path) // until then a keeper that was late may prove it again
				return page.Check() != nil && (end == "frozen" || end == "killed with its keeper" || errors.Is(err, fs.ErrNotExist))
			})
			for _, r := range all {
				if got, want := r.says(t), fmt.Sprint(page.Token(), " over"); got != want {
					t.Errorf("%s says %q of a leader that was %s; want %q", r.name, got, end, want)
				}
			}
		})
	}
}

// TestLeaseReadersAmongPeers: a leader among peers is frozen together with its keeper. By the time that the next leader's
// command runs, the page of the first is over, in each language.
func TestLeaseReadersAmongPeers(t *testing.T) {
	long.Test(t, "it waits for a lease to end")
	env := environment(t)
	peers := harness.FreePeers(t, 3)
	type led struct {
		pid  int
		page string
	}
	terms := make(chan led)
	for id := range 3 {
		cmd := exec.Command("elect", "run", "--election", peers, "--name", "pages", "--id", fmt.Sprint("n", id+1), "--data", filepath.Join(t.TempDir(), "data"),
			"--", "sh", "-c", `echo "$ELECT_LEASE"; exec sleep 1000`)
		cmd.Env, cmd.Stderr = env, os.Stderr
		_, out := harness.Start(t, cmd)
		t.Cleanup(func() { harness.End(cmd) })
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				select {
				case terms <- led{cmd.Process.Pid, lines.Text()}:
				case <-t.Context().Done():
				}
			}
		}()
	}
	first := <-terms
	page, err := lease.Open(first.page)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	all := readers(t, env, first.page)
	for _, r := range all {
		harness.Eventually(t, r.name+" says that leadership is proven", func() bool { return r.says(t) == fmt.Sprint(page.Token(), " proven") })
	}
	for _, pid := range append([]int{first.pid}, harness.Children(first.pid)...) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	}
	left := page.Remaining()
	if left == 0 {
		t.Error("the page is over at the instant of the freeze; want a lease")
	}
	second := <-terms
	if err := page.Check(); err == nil {
		t.Errorf("the page of the first leader is proven for another %v, and the next one works", page.Remaining())
	}
	for _, r := range all {
		if got, want := r.says(t), fmt.Sprint(page.Token(), " over"); got != want {
			t.Errorf("%s says %q while the next leader works; want %q", r.name, got, want)
		}
	}
	next, err := lease.Open(second.page)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if second.pid == first.pid || next.Token() <= page.Token() {
		t.Errorf("token %v of %d follows %v of %d; want a greater one of another", next.Token(), second.pid, page.Token(), first.pid)
	}
	t.Logf("%d readers; the lease had %v left when the leader was frozen", len(all), left)
}
