// Package deploy tests the files of this directory, without a cluster and without a service manager. Package cmd/elect
// tests what depends on the flags of elect run, and electprom the alert rules.
package deploy

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/electd/elect/internal/harness"
)

func write(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}

// TestUnits: systemd-analyze verifies the units without a warning, and the exposure of elect@.service is at most what its
// comments explain.
func TestUnits(t *testing.T) {
	harness.Need(t, "systemd-analyze", "systemd")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "elect"), nil, 0o755) // the program has to be there
	unit := func(name, as string) string {
		text, err := os.ReadFile("systemd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, as)
		write(t, path, []byte(strings.Replace(string(text), "/usr/bin/elect ", filepath.Join(dir, "elect")+" ", 1)), 0o644)
		return path
	}
	job, agent := unit("elect@.service", "elect@job.service"), unit("elect-agent.service", "elect-agent.service")
	redis, postgres := unit("elect-redis.service", "elect-redis.service"), unit("elect-postgres.service", "elect-postgres.service")
	for _, args := range [][]string{{"verify", "--man=no", job}, {"verify", "--man=no", agent}, {"security", "--offline=yes", "--threshold=30", job}, {"verify", "--man=no", redis}, {"security", "--offline=yes", "--threshold=30", redis}, {"verify", "--man=no", postgres}} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// service records what follow-leader.sh asks of the API server, and keeps one Service with its version as that does.
// It is no API server: it knows neither rights nor validation.
type service struct {
	t *testing.T

	mu       sync.Mutex
	version  int
	mark     string
	selector string
	between  func(*service) // called once, after the first read: what others write meanwhile
	requests []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method)
	if r.URL.Path != "/api/v1/namespaces/prod/services/scheduler" || r.Header.Get("Authorization") != "Bearer secret" {
		s.t.Errorf("%s %s with %q; want the Service, and the token of the account", r.Method, r.URL, r.Header.Get("Authorization"))
	}
	switch {
	case r.Method == http.MethodGet:
		// Clients such as curl get it pretty-printed, and an annotation of kubectl can repeat parts of it as text.
		_, _ = fmt.Fprintf(w, "{\n  \"kind\": \"PartialObjectMetadata\",\n  \"metadata\": {\n    \"name\": \"scheduler\",\n    \"resourceVersion\": \"%d\",\n", s.version)
		_, _ = fmt.Fprint(w, `    "annotations": {`)
		if s.mark != "" {
			_, _ = fmt.Fprintf(w, "\n      \"elect.example/token\": %q,", s.mark)
		}
		_, _ = fmt.Fprint(w, "\n"+`      "kubectl.kubernetes.io/last-applied-configuration": "{\"metadata\":{\"resourceVersion\":\"999\"}}"`+"\n    },\n")
		_, _ = fmt.Fprint(w, `    "managedFields": [{"fieldsV1": {"f:metadata": {"f:annotations": {"f:elect.example/token": {}}}}}]`+"\n  }\n}\n")
		if s.between != nil {
			s.between(s)
			s.between = nil
		}
	case r.Method == http.MethodPatch:
		var patch struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]string
			}
			Spec struct{ Selector map[string]string }
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&patch); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			s.t.Errorf("a patch of type %q: %v", r.Header.Get("Content-Type"), err)
		}
		if patch.Metadata.ResourceVersion != fmt.Sprint(s.version) {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.version++
		s.mark, s.selector = patch.Metadata.Annotations["elect.example/token"], patch.Spec.Selector["statefulset.kubernetes.io/pod-name"]
		_, _ = fmt.Fprint(w, "{}")
	}
}

// TestFollowLeader: the script sets the selector to its pod, and then runs the job. An older leader is refused, even if
// the later one writes between the older one's read and write.
func TestFollowLeader(t *testing.T) {
	harness.Need(t, "curl", "curl")
	for name, c := range map[string]struct {
		mark     string
		between  func(*service)
		selector string // after the end
		ran      bool
		requests string
	}{
		"first":    {selector: "scheduler-1", ran: true, requests: "GET PATCH"},
		"next":     {mark: "41", selector: "scheduler-1", ran: true, requests: "GET PATCH"},
		"same":     {mark: "42", selector: "scheduler-1", ran: true, requests: "GET PATCH"},
		"later":    {mark: "1000000000000000000", requests: "GET"},
		"another":  {mark: "41", between: func(s *service) { s.version++ }, selector: "scheduler-1", ran: true, requests: "GET PATCH GET PATCH"},
		"woken up": {mark: "41", between: func(s *service) { s.version++; s.mark, s.selector = "43", "scheduler-2" }, selector: "scheduler-2", requests: "GET PATCH GET"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &service{t: t, version: 7, mark: c.mark, between: c.between}
			server := httptest.NewTLSServer(s)
			defer server.Close()
			host, port, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "token"), []byte("secret"), 0o600)
			write(t, filepath.Join(dir, "namespace"), []byte("prod"), 0o600)
			write(t, filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)
			cmd := exec.Command("sh", "kubernetes/follow-leader.sh", "scheduler", "echo", "the job")
			cmd.Env = append(os.Environ(), "ELECT_TOKEN=42", "POD_NAME=scheduler-1", "SERVICE_ACCOUNT="+dir,
				"KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
			out, err := cmd.CombinedOutput()
			if ran := err == nil && strings.HasSuffix(string(out), "the job\n"); ran != c.ran {
				t.Errorf("the job ran: %v; want %v: %v\n%s", ran, c.ran, err, out)
			}
			if s.selector != c.selector {
				t.Errorf("the Service selects %q, want %q", s.selector, c.selector)
			}
			if got := strings.Join(s.requests, " "); got != c.requests {
				t.Errorf("it asked %s; want %s\n%s", got, c.requests, out)
			}
		})
	}
}
