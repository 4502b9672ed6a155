//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/harness"
)

// TestSecretsStaySecret: neither the password of a URL nor the token of --http-token-file is in what elect run writes or
// serves, in the arguments of the processes that it starts, or in the environment of the command.
func TestSecretsStaySecret(t *testing.T) {
	const password, token = "hunter2-password", "hunter2-token-0123456789"
	for name, election := range map[string]string{
		"file": "file:", "mysql": "mysql://me:" + password + "@127.0.0.1:1/app",
		"postgres": "postgres://me:" + password + "@127.0.0.1:1/app", "etcd": "etcd://me:" + password + "@127.0.0.1:1/app",
		"redis":      "redis://me:" + password + "@127.0.0.1:1/0",
		"consul":     "consul://me:" + password + "@127.0.0.1:1/app",
		"kubernetes": "",
		"zookeeper":  "zookeeper://me:" + password + "@127.0.0.1:1/app",
		"nats":       "nats://me:" + password + "@127.0.0.1:1/app",
	} {
		for _, form := range []string{"--log-format=text", "--log-format=json", "--verbose"} {
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				dir, election := t.TempDir(), election
				file := filepath.Join(dir, "token")
				if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if election == "file:" {
					election = "file:" + filepath.Join(dir, "place")
				}
				if name == "kubernetes" {
					config := filepath.Join(dir, "config")
					if err := os.WriteFile(config, []byte("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
						"clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: "+password+"}}]\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					election = "kubernetes://default?kubeconfig=" + config
				}
				cmd := exec.Command("elect", "run", "--name", "e", "--id", "a", form, "--http", "127.0.0.1:0", "--http-token-file", file, "--", "sh", "-c", "echo runs; env; exec sleep 1000")
				cmd.Env = append(environment(t), "ELECT_ELECTION="+election)
				var said, wrote harness.Buffer
				cmd.Stderr, cmd.Stdout = &said, &wrote
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer harness.End(cmd)
				served := regexp.MustCompile(`serving HTTP on (http://[0-9.:]+)`)
				harness.Eventually(t, "it serves", func() bool { return served.MatchString(said.String()) })
				all := map[string]string{}
				if name == "file" {
					harness.Eventually(t, "the command runs", func() bool { return strings.Contains(wrote.String(), "runs\n") })
					if all["the arguments of its processes"] = arguments(cmd.Process.Pid); !strings.Contains(all["the arguments of its processes"], "sleep 1000") {
						t.Errorf("its processes are %q; want the command among them", all["the arguments of its processes"])
					}
				} else {
					harness.Eventually(t, "it has tried", func() bool { return strings.Contains(said.String(), "connection refused") })
				}
				at := served.FindStringSubmatch(said.String())[1]
				for _, path := range []string{"/metrics", "/v1/elections", "/v1/elections/e", "/", "/leader", "/readyz", "/nowhere", "/openapi.json"} {
					resp, err := http.Get(at + path)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil || len(body) == 0 {
						t.Errorf("%s: %q, %v", path, body, err)
					}
					all[path] = fmt.Sprint(resp.Header, string(body))
				}
				_ = cmd.Process.Signal(syscall.SIGTERM)
				_ = cmd.Wait()
				all["stderr"], all["the command's environment"] = said.String(), wrote.String()
				for where, text := range all {
					if strings.Contains(text, "hunter2") {
						t.Errorf("%s has a secret:\n%s", where, text)
					}
				}
			})
		}
	}
}

// arguments returns those of all descendants of a process.
func arguments(pid int) string {
	var all strings.Builder
	for _, child := range harness.Descendants(pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)) // it may have ended
		all.WriteString(strings.ReplaceAll(string(text), "\x00", " ") + "\n")
	}
	return all.String()
}
