//go:build linux && cgo

package leases_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/fencing/server"
)

// TestSecretsOfALeaderStaySecret: while a command leads at a real store, the store's password is in no arguments of any
// process, not in the environment of the command, and in nothing that elect writes or serves. The keeper is the program
// elect again, of the same user, and has its environment.
// TestSecretsStaySecret of cmd/elect has the stores that do not answer.
func TestSecretsOfALeaderStaySecret(t *testing.T) {
	const password = "hunter2-of-the-store"
	program := harness.Build(t, "../../../cmd/elect")
	for name, at := range map[string]func(t *testing.T) (url, secret string){
		"redis": func(t *testing.T) (string, string) {
			r := server.StartRedis(t)
			if err := r.Client(t).ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
				t.Fatal(err)
			}
			return "redis://:" + password + "@" + r.Addr + "?lease=1s&max_lease=1s", password
		},
		"postgresql": func(t *testing.T) (string, string) {
			u, err := url.Parse(stores(t, "1s")["postgresql"](t))
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword(u.User.Username(), password) // the server trusts 127.0.0.1
			return u.String(), password
		},
		"s3": func(t *testing.T) (string, string) { return stores(t, "1s")["s3"](t), server.S3Secret },
	} {
		t.Run(name, func(t *testing.T) {
			at, secret := at(t)
			for _, form := range []string{"--verbose", "--log-format=json"} {
				all := leads(t, program, at, form)
				for where, text := range all {
					if name == "s3" && where == "environment" {
						continue // it has the variables of AWS's tools, which the command may call
					}
					if text == "" {
						t.Errorf("%s: %s is empty", form, where)
					}
					if strings.Contains(text, secret) {
						t.Errorf("%s: %s has a secret:\n%s", form, where, text)
					}
				}
			}
		})
	}
}

// leads has elect run lead at a URL that it gets by its environment, and returns all that can be seen of it.
func leads(t *testing.T, program, at, form string) map[string]string {
	t.Helper()
	environment := append(os.Environ(), "ELECT_ELECTION="+at, "ELECT_NAME=e", "XDG_STATE_HOME="+filepath.Join(t.TempDir(), "state"))
	run := exec.Command(program, "run", "--id", "a", form, "--http", "127.0.0.1:0", "--", "sh", "-c", "echo $$; sleep 1000; :")
	run.Env = environment
	c := began(t, "a", run)
	work := c.leads(t)
	served := regexp.MustCompile(`serving HTTP on (http://[0-9.:]+)`)
	harness.Eventually(t, "it serves", func() bool { return served.MatchString(c.said.String()) })
	api := served.FindStringSubmatch(c.said.String())[1]

	watch := exec.Command(program, "watch")
	watch.Env = environment
	w := began(t, "watch", watch)
	harness.Eventually(t, "elect watch sees the leader", func() bool { return strings.Contains(w.wrote.String(), "token") })

	all := map[string]string{"arguments of elect watch": arguments(t, watch.Process.Pid)}
	keeper := parent(t, work)
	for parent(t, keeper) != run.Process.Pid {
		keeper = parent(t, keeper)
	}
	for who, pid := range map[string]int{"elect run": run.Process.Pid, "the keeper": keeper, "the command": work} {
		all["arguments of "+who] = arguments(t, pid)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", work))
	if err != nil {
		t.Fatal(err)
	}
	all["environment"] = string(text)
	for _, verb := range [][]string{{"status"}, {"status", "-o", "json"}, {"doctor"}} {
		cmd := exec.Command(program, verb...)
		cmd.Env = environment
		text, _ := cmd.CombinedOutput() // doctor may find something
		all["elect "+strings.Join(verb, " ")] = string(text)
	}
	for _, path := range []string{"/metrics", "/v1/elections/e", "/leader", "/readyz", "/livez"} {
		resp, err := http.Get(api + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		all[path] = fmt.Sprint(resp.Status, resp.Header, string(body))
	}
	resp, err := http.Get(api + "/v1/elections/e/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for s := bufio.NewScanner(resp.Body); !strings.Contains(all["an event"], "data:") && s.Scan(); {
		all["an event"] += s.Text() + "\n"
	}
	w.end()
	c.signal(syscall.SIGTERM)
	_ = c.cmd.Wait()
	c.end()
	all["stderr of elect run"], all["stdout of elect watch"] = c.said.String(), w.wrote.String()
	return all
}

func arguments(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// parent is the process id of a process's parent.
func parent(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	n, err := strconv.Atoi(fields[1])
	if err != nil || n <= 1 {
		t.Fatalf("the parent of %d is %q; want a process of the test", pid, fields[1])
	}
	return n
}
