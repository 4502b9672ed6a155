package kubernetes

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// environment is one that has these variables only.
func environment(of map[string]string) func(string) string {
	return func(name string) string { return of[name] }
}

// TestParse: what a URL says, and what is wrong in one.
func TestParse(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config"), `
current-context: one
contexts:
- {name: one, context: {cluster: k, user: u, namespace: ops}}
- {name: two, context: {cluster: k}}
clusters: [{name: k, cluster: {server: "https://k:6443"}}]
users: [{name: u, user: {token: se-cret}}]
`)
	parsed := func(at string) (Config, *access, error) {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		return parse(u, environment(map[string]string{"KUBECONFIG": file}), t.TempDir())
	}
	c, a, err := parsed("kubernetes://jobs?lease=15s&max_lease=20s&poll=2s&era=3&flight=f&kubeconfig=" + file)
	if want := (Config{Namespace: "jobs", Lease: 15 * time.Second, MaxLease: 20 * time.Second, Poll: 2 * time.Second, Era: 3, Flight: "f"}); err != nil || c != want || a.server != "https://k:6443" || a.token != "se-cret" {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
	for at, want := range map[string]string{"kubernetes:": "ops", "kubernetes:///": "ops", "kubernetes://?context=two": "default", "kubernetes://jobs/": "jobs"} {
		if c, _, err := parsed(at); err != nil || c.Namespace != want {
			t.Errorf("%s: namespace %s, %v; want %s", at, c.Namespace, err, want)
		}
	}
	for at, want := range map[string]string{
		"kubernetes://jobs/sub":                    "want kubernetes://NAMESPACE",
		"kubernetes://me@jobs":                     "want kubernetes://NAMESPACE",
		"kubernetes://jobs:443":                    "want kubernetes://NAMESPACE",
		"kubernetes://jobs?lease=5":                "lease=5; want a time such as 5s",
		"kubernetes://jobs?lease=1s&lease=2s":      "lease is empty, or given 2 times",
		"kubernetes://jobs?era=65536":              "era=65536; want 0 to 65535",
		"kubernetes://jobs?token=x":                `unknown parameter "token"`,
		"kubernetes://jobs?context=three":          `no context "three"; want one that kubectl config get-contexts lists`,
		"kubernetes://jobs?kubeconfig=/nowhere/at": "no such file",
	} {
		if _, _, err := parsed(at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", at, err, want)
		}
	}
}

// TestKubeconfig: what a file says, what several say, and what is refused.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	const context = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
	const cluster = "clusters: [{name: k, cluster: {server: https://k}}]\n"
	find := func(text string) (access, error) {
		return find(write(t, filepath.Join(dir, "one"), text), "", environment(nil), dir)
	}
	write(t, filepath.Join(dir, "pki", "ca.crt"), "CA")
	a, err := find(context + "clusters: [{name: k, cluster: {server: https://k, certificate-authority: pki/ca.crt, tls-server-name: api, proxy-url: 'http://p:1'}}]\n" +
		"users: [{name: u, user: {tokenFile: pki/token, token: old, client-certificate: pki/c, client-key: pki/k}}]\n")
	want := access{server: "https://k", serverName: "api", ca: "CA", proxy: "http://p:1", tokenFile: filepath.Join(dir, "pki/token"), certFile: filepath.Join(dir, "pki/c"), certKeyFile: filepath.Join(dir, "pki/k")}
	if err != nil || a != want {
		t.Errorf("%+v, %v; want %+v", a, err, want)
	}
	a, err = find(context + "clusters: [{name: k, cluster: {server: https://k, certificate-authority-data: Q0E=, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {client-certificate-data: Qw==, client-key-data: Sw==}}]\n")
	if want := (access{server: "https://k", ca: "CA", insecure: true, cert: "C", certKey: "K"}); err != nil || a != want {
		t.Errorf("%+v, %v; want %+v", a, err, want)
	}
	for text, want := range map[string]string{
		"\t\tse-cret: [":  "not a kubeconfig",
		cluster:           "no current-context",
		context:           `no cluster "k"`,
		context + cluster: `user "u": no such user`,
		context + cluster + "users: [{name: u, user: {exec: {command: aws, apiVersion: v1}}}]":                        "it has an exec plugin, which elect does not run; want a token",
		context + cluster + "users: [{name: u, user: {auth-provider: {name: gcp}}}]":                                  "it has an auth-provider",
		context + cluster + "users: [{name: u, user: {username: me, password: se-cret}}]":                             "it has a username",
		context + cluster + "users: [{name: u, user: {as: admin, token: se-cret}}]":                                   "it acts as another user",
		context + cluster + "users: [{name: u, user: {client-key-data: se-cret}}]":                                    "want both, or neither",
		context + cluster + "users: [{name: u, user: {client-key-data: '(se-cret)', client-certificate-data: Qw==}}]": "client-key-data is not base64",
	} {
		_, err := find(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "se-cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want an error with %q", text, err, want)
		}
	}

	// Of a list the first counts, and what is missing in it is passed over.
	first := write(t, filepath.Join(dir, "first"), context)
	second := write(t, filepath.Join(dir, "sub", "second"), "current-context: d\n"+cluster+"users: [{name: u, user: {tokenFile: token}}]\n")
	list := strings.Join([]string{first, filepath.Join(dir, "nothing"), second}, string(filepath.ListSeparator))
	a, err = findWith(t, list, dir)
	if want := filepath.Join(dir, "sub", "token"); err != nil || a.tokenFile != want || a.server != "https://k" {
		t.Errorf("%+v, %v; want the token %s", a, err, want)
	}
}

func findWith(t *testing.T, list, account string) (access, error) {
	t.Helper()
	return find("", "", environment(map[string]string{"KUBECONFIG": list, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}), account)
}

// TestInCluster: a pod finds its cluster, and reads its token again as Kubernetes replaces it.
func TestInCluster(t *testing.T) {
	var tokens []string
	cluster := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		http.Redirect(w, r, "https://elsewhere/", http.StatusFound)
	}))
	cluster.Config.ErrorLog = log.New(io.Discard, "", 0) // it says who does not trust it
	cluster.StartTLS()
	defer cluster.Close()
	account := t.TempDir()
	at, err := url.Parse(cluster.URL)
	if err != nil {
		t.Fatal(err)
	}
	env := environment(map[string]string{"KUBERNETES_SERVICE_HOST": at.Hostname(), "KUBERNETES_SERVICE_PORT": at.Port()})
	if _, err := find("", "", env, account); err == nil || !strings.Contains(err.Error(), "automountServiceAccountToken") {
		t.Errorf("%v; want that there is no account", err)
	}
	write(t, filepath.Join(account, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})))
	write(t, filepath.Join(account, "namespace"), "jobs\n")
	write(t, filepath.Join(account, "token"), "one\n")
	c, a, err := parse(&url.URL{Scheme: "kubernetes"}, env, account)
	if err != nil || c.Namespace != "jobs" {
		t.Fatalf("%+v, %v; want the namespace of the pod", c, err)
	}
	api, done, err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"one", "two"} {
		write(t, filepath.Join(account, "token"), token)
		if err := api.do(t.Context(), http.MethodGet, "version", nil, nil, nil); !isRefusal(err, http.StatusFound) {
			t.Errorf("%v; want the redirect, which is not followed", err)
		}
	}
	if err := done(); err != nil || strings.Join(tokens, ",") != "Bearer one,Bearer two" {
		t.Errorf("%v, %v; want the token read again", tokens, err)
	}
	a.ca = ""
	if api, done, err = a.open(); err != nil {
		t.Fatal(err)
	}
	l := &lease{api: api, namespace: "jobs", name: "e"}
	if err := l.ready(t.Context()); !driver.IsPermanent(err) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "want the certificate-authority") {
		t.Errorf("%v; want a server that is not trusted to be refused", err)
	}
	_ = done()
}

// TestNames: what a Lease or a namespace cannot be called is refused before anything is asked.
func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"nightly": true, "a.b-c": true, "Nightly": false, "a_b": false, "-a": false, "a..b": false, "a-": false, "ä": false} {
		_, err := newElector(t.Context(), nil, name, "a", Config{Namespace: "Jobs"}, drive.Config{})
		if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), `namespace "Jobs"; want`) {
			t.Errorf("%v; want the namespace to be refused", err)
		}
		if err := checkName("election name", name, driver.MaxName); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzObject: whatever a server sends is an error, or a record that a register reads, and that can be replaced.
func FuzzObject(f *testing.F) {
	f.Add(`{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"electd.github.io/election":"{\"record\":{\"format\":1,\"holder\":\"a\",\"count\":3,\"nonce\":\"000102030405060708090a0b0c0d0e0f\",\"attempt\":1,\"lease\":\"5s\"},\"renewed\":\"2026-01-01T00:00:00Z\",\"transitions\":2}"}},"spec":{"holderIdentity":"a_000102030405060708090a0b0c0d0e0f","leaseDurationSeconds":5,"renewTime":"2026-01-01T00:00:00.000000Z","leaseTransitions":2}}`)
	f.Add(`{"metadata":{"uid":"u","resourceVersion":"x"},"spec":{"holderIdentity":"a b","leaseDurationSeconds":-5}}`)
	f.Add(`{"metadata":{"uid":"u","resourceVersion":"9"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		o := &object{}
		if json.Unmarshal([]byte(text), o) != nil {
			return
		}
		k, err := (&lease{longest: time.Second}).kept(o)
		if err != nil {
			return
		}
		s, err := register.Summarize(k.Text)
		if err != nil {
			t.Fatalf("%s: %v", k.Text, err)
		}
		own := register.Foreign(register.Summary{Holder: "b", Nonce: strings.Repeat("0", 32), Count: s.Count + 1, Lease: 1500 * time.Millisecond})
		body, err := with(o, "jobs", "e", own, time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		next := &object{}
		if err := json.Unmarshal(out, next); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		n := &next.native
		if _, _, current := next.record(); !current || n.LeaseDurationSeconds != 2 || n.LeaseTransitions < o.native.LeaseTransitions || o.native.RenewTime.Year() < 9999 && !n.RenewTime.After(o.native.RenewTime.Add(-time.Second)) {
			t.Fatalf("%s becomes %s", text, out)
		}
	})
}

// FuzzKubeconfig: whatever is in a file is an error of one line, or an access.
func FuzzKubeconfig(f *testing.F) {
	f.Add("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: https://k}}]\nusers: [{name: u, user: {token: x}}]\n")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseFile([]byte(text), "/nowhere")
		if err == nil {
			_, err = c.access(c.CurrentContext)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	})
}
