//go:build linux

package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
)

// Kubernetes is a kube-apiserver over an etcd, with the users admin, who may do anything, job and nobody. Each has its
// name as its token. Its methods belong to the test's goroutine.
type Kubernetes struct {
	*process
	Addr string // where it listens, with TLS
	Etcd *Etcd
	args []string
}

// StartKubernetes starts one, with further flags.
func StartKubernetes(t testing.TB, flags ...string) *Kubernetes {
	t.Helper()
	long.Full(t, "it starts a real server, which CI does not build")
	bin := built(t, "kube-apiserver")
	e := StartEtcd(t, "--unsafe-no-fsync")
	p, port := newProcess(t, "kube-apiserver"), freePort(t)
	key, tokens := filepath.Join(p.dir, "account.key"), filepath.Join(p.dir, "tokens")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{
		key:    pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		tokens: []byte("admin,admin,1,system:masters\njob,job,2\nnobody,nobody,3\n"),
	} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := &Kubernetes{p, "127.0.0.1:" + port, e, append([]string{
		bin, "--etcd-servers", e.URL, "--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", filepath.Join(p.dir, "certs"),
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--anonymous-auth=false", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--endpoint-reconciler-type", "none",
	}, flags...)}
	k.Start(t)
	return k
}

// Start starts the server, and returns when it serves Leases.
func (k *Kubernetes) Start(t testing.TB) {
	t.Helper()
	k.start(t, k.command(k.args[0], k.args[1:]...), func(ctx context.Context) error {
		_, err := k.Ask(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/default/leases", nil)
		if err == nil {
			_, err = k.Ask(ctx, http.MethodGet, "/api/v1/namespaces/default", nil)
		}
		return err
	})
}

// Config writes a kubeconfig for a user, with the server at addr if that is not empty.
func (k *Kubernetes) Config(t testing.TB, user, addr string) (file string) {
	t.Helper()
	if addr == "" {
		addr = k.Addr
	}
	file = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "default"}}],
"clusters": [{"name": "k", "cluster": {"server": "https://%s", "certificate-authority": "%s"}}], "users": [{"name": "u", "user": {"token": "%s"}}]}`,
		addr, k.ca(), user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (k *Kubernetes) ca() string { return filepath.Join(k.dir, "certs", "apiserver.crt") }

// Do makes a request as admin, and returns the answer.
func (k *Kubernetes) Do(t testing.TB, method, path string, in any) (out map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := k.Ask(ctx, method, path, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Put replaces an object, or makes it, and reports whether it could: another one may have changed it meanwhile.
func (k *Kubernetes) Put(t testing.TB, path string, in any) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := k.Ask(ctx, http.MethodPut, path, in)
	if err != nil && !strings.Contains(err.Error(), ": 409 ") {
		t.Fatal(err)
	}
	return err == nil
}

// Ask makes a request as admin, and returns the answer. A refusal is an error.
func (k *Kubernetes) Ask(ctx context.Context, method, path string, in any) (out map[string]any, err error) {
	roots := x509.NewCertPool()
	text, err := os.ReadFile(k.ca())
	if err != nil {
		return nil, err
	}
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+k.Addr+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer admin")
	r.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return out, json.Unmarshal(text, &out)
}

// ClientGo builds the candidate of client-go, in the module beside this file.
func ClientGo(t testing.TB) (bin string) {
	t.Helper()
	return buildApart(t, "clientgo", ".", "clientgo")
}

// DropIn builds the same candidate with adapter/leaderelection: only one import differs.
func DropIn(t testing.TB) (bin string) {
	t.Helper()
	const theirs, ours = `"k8s.io/client-go/tools/leaderelection"`, `"github.com/electd/elect/adapter/leaderelection"`
	text, err := os.ReadFile(filepath.Join(testdata(), "clientgo", "main.go"))
	if err != nil || strings.Count(string(text), theirs) != 1 {
		t.Fatalf("%v; want one import of client-go's leaderelection in clientgo/main.go", err)
	}
	main, overlay := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(testdata(), "adapters", "dropin", "main.go"): main}})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{main: strings.Replace(string(text), theirs, ours, 1), overlay: string(replaced)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return buildApart(t, "adapters", "./dropin", "dropin", "-overlay", overlay)
}

// Operator builds a manager of controller-runtime under adapter/controllerruntime.
func Operator(t testing.TB) (bin string) {
	t.Helper()
	return buildApart(t, "adapters", "./operator", "operator")
}

func testdata() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "testdata")
}

// buildApart builds a program of a module in testdata that needs client-go.
func buildApart(t testing.TB, module, pkg, name string, flags ...string) (bin string) {
	t.Helper()
	long.Test(t, "it builds client-go")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(cache, "elect-test", name)
	build := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", bin}, append(flags, pkg)...)...)
	build.Dir = filepath.Join(testdata(), module)
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		Absent(t, fmt.Sprintf("%s cannot be built (%v)\n%s", name, err, out))
	}
	return bin
}

// notFound reports whether a try was answered with 404.
func notFound(err error) bool { return err != nil && strings.Contains(err.Error(), ": 404 ") }

// Lease returns the Lease of that name in default, nil if there is none.
func (k *Kubernetes) Lease(t testing.TB, name string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		out, err := k.Ask(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/default/leases/"+name, nil)
		switch {
		case notFound(err):
			return nil
		case err == nil:
			return out
		case ctx.Err() != nil:
			t.Fatal(errors.Join(err, ctx.Err()))
		}
		<-time.After(100 * time.Millisecond)
	}
}
