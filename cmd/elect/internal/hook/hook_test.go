//go:build unix

package hook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	t.Setenv("OUTSIDE", "outside")
	for _, c := range []struct {
		name, text string
		want       string
		says       string // of the error
	}{
		{name: "a line", text: "echo 16/B374D848", want: "16/B374D848"},
		{name: "without an end", text: "printf 7", want: "7"},
		{name: "with space around", text: "printf '\\n  7 \\n\\n'", want: "7"},
		{name: "the environment", text: `echo "$OUTSIDE $ELECT_ID $MORE"`, want: "outside n1 more"},
		{name: "nothing to read", text: "read x || echo none", want: "none"},
		{name: "a pipe", text: "echo 1 | tr 1 2", want: "2"},
		{name: "nothing", text: ":", says: "it printed nothing; want one line"},
		{name: "two lines", text: "echo 1; echo 2", says: `it printed 2 lines, beginning with "1\n2"; want one line`},
		{name: "too much", text: "head -c 100000 /dev/zero | tr '\\0' x", says: "it printed more than 4096 bytes"},
		{name: "a failure", text: "echo 7; echo 'no connection' >&2; exit 3", says: "exit status 3: no connection"},
		{name: "a failure in colours", text: `printf '\033[31mred\033[2J\000\302\233' >&2; exit 1`, says: "exit status 1: [31mred [2J"},
		{name: "a long failure", text: "head -c 100000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1", says: strings.Repeat("x", 190) + "end"},
		{name: "no such command", text: "there-is-no-such-command", says: "exit status 127: "},
		{name: "no shell", text: "'", says: "exit status "},
		{name: "too long", text: "echo 7; sleep 1000", says: "it took longer than 500ms, and was killed"},
		{name: "deaf and too long", text: "trap '' TERM; while :; do sleep 0.05; done", says: "it took longer than 500ms, and was killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := 30 * time.Second
			if strings.HasSuffix(c.name, "too long") {
				limit = 500 * time.Millisecond
			}
			cmd := &Command{Text: c.text, Env: []string{"ELECT_ID=n1"}, Limit: limit}
			got, err := cmd.Line(t.Context(), "MORE=more")
			if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.says)
			}
		})
	}
}

// Nothing is left of a command that has ended, nor of one whose context has.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"of its own accord": "sleep 1000 & echo $! >PID; exec >&-",
		"at its end":        "sleep 1000 & echo $! >PID; wait",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			why := errors.New("enough")
			var pid int
			begun := make(chan struct{})
			go func() {
				defer close(begun)
				for pid == 0 {
					text, _ := os.ReadFile(path)
					pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
					<-time.After(time.Millisecond)
				}
				if name == "at its end" {
					cancel(why)
				}
			}()
			c := &Command{Text: strings.ReplaceAll(text, "PID", path)}
			if _, err := c.Run(ctx); name == "at its end" && !errors.Is(err, why) {
				t.Errorf("%v; want the cause of the context", err)
			}
			<-begun
			for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
				if running(pid) {
					if time.Now().Before(end) {
						continue
					}
					t.Errorf("process %d, which the command left, runs", pid)
				}
				return
			}
		})
	}
}

// running reports whether a process is there that has not ended: a zombie has.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(text), ") Z ")
}

// TestObserve: each run is told with its name and how long it took, whether it succeeds, fails or is killed.
func TestObserve(t *testing.T) {
	told := map[string]time.Duration{}
	for text, failing := range map[string]bool{"echo 7": false, "exit 1": true, "sleep 1000": true} {
		cmd := &Command{Text: text, Name: text, Limit: time.Second, Observe: func(name string, took time.Duration) { told[name] += took }}
		if _, err := cmd.Line(t.Context()); (err != nil) != failing {
			t.Errorf("%s: %v", text, err)
		}
		if told[text] <= 0 {
			t.Errorf("%s: nothing was told: %v", text, told)
		}
	}
	if told["sleep 1000"] < time.Second {
		t.Errorf("a run that is killed after 1 s took %v", told["sleep 1000"])
	}
}
