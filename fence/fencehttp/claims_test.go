package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

const secretText = "the-secret-of-orders"

func secret(t *testing.T, text string) fencehttp.Secret {
	t.Helper()
	s, err := fencehttp.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// post sends one request with these headers, name and value in turns, and returns its status
// and its result.
func post(t *testing.T, c *http.Client, url string, headers ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get(fencehttp.ResultHeader))
}

// countedMark counts what is written.
type countedMark struct {
	fence.Memory
	raised int
}

func (c *countedMark) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	c.raised++
	return c.Memory.Raise(ctx, r, token)
}

// One request of a client without a credential does not keep all leaders out for good, and no
// request does with a token that no leader can have.
func TestMarkIsNotRaisedByAnybody(t *testing.T) {
	const good, beyond = secretText, "r;9223372036854775807"
	for _, may := range []struct {
		name  string
		claim func(*http.Request) bool
	}{{"nobody", nil}, {"secret", secret(t, good).IsShown}, {"certificate", fencehttp.HasCertificate}, {"socket", fencehttp.IsFromSocket}, {"no secret", fencehttp.Secret{}.IsShown}} {
		t.Run(may.name, func(t *testing.T) {
			mark := new(countedMark)
			if err := mark.Memory.Raise(t.Context(), "r", 7); err != nil {
				t.Fatal(err)
			}
			s := serve(t, fencehttp.NewHandler(newGuard(t, mark, fence.GuardConfig{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), fencehttp.Config{MayClaim: may.claim}), "")
			for _, headers := range [][]string{
				{fencehttp.Header, "r;8"},
				{fencehttp.Header, beyond},
				{fencehttp.Header, "r;8", fencehttp.ClaimHeader, ""},
				{fencehttp.Header, "r;8", fencehttp.ClaimHeader, good + "x"},
				{fencehttp.Header, "r;8", fencehttp.ClaimHeader, good[1:]},
				{fencehttp.Header, "r;8", fencehttp.ClaimHeader, strings.ToUpper(good)},
				{fencehttp.Header, "r;8", fencehttp.ClaimHeader, good, fencehttp.ClaimHeader, good},
				{fencehttp.Header, "r;8", "Authorization", "Bearer " + good},
			} {
				for _, path := range []string{"/", fencehttp.ClaimPath} {
					if got := post(t, s.Client(), s.URL+path, headers...); got != "403 unclaimed" {
						t.Errorf("%s %q: %s; want 403 unclaimed", path, headers, got)
					}
				}
			}
			if got := post(t, s.Client(), s.URL+fencehttp.ClaimPath, fencehttp.Header, "r;7"); got != "403 unclaimed" {
				t.Errorf("a claim with the token of the mark: %s; want 403 unclaimed", got)
			}
			if mark.raised != 0 {
				t.Errorf("the mark was written %d times", mark.raised)
			}
			for shown, want := range map[string]string{"r;7": "200 ", "r;6": "412 stale"} {
				if got := post(t, s.Client(), s.URL, fencehttp.Header, shown); got != want {
					t.Errorf("%s: %s; want %s", shown, got, want)
				}
			}
			if got, err := mark.Highest(t.Context(), "r"); got != 7 || err != nil {
				t.Errorf("the mark is %v, %v; want 7", got, err)
			}
		})
	}
	mark := new(countedMark)
	s := serve(t, fencehttp.NewHandler(newGuard(t, mark, fence.GuardConfig{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), fencehttp.Config{MayClaim: secret(t, good).IsShown}), "")
	for _, path := range []string{"/", fencehttp.ClaimPath} {
		if got := post(t, s.Client(), s.URL+path, fencehttp.Header, beyond, fencehttp.ClaimHeader, good); got != "400 malformed" || mark.raised != 0 {
			t.Errorf("%s beyond reach: %s, and the mark was written %d times; want 400 malformed", path, got, mark.raised)
		}
	}
	if got := post(t, s.Client(), s.URL, fencehttp.Header, "r;8", fencehttp.ClaimHeader, good); got != "200 " {
		t.Errorf("a request with the secret: %s", got)
	}
	if err := claim(t.Context(), s.Client(), s.URL, secret(t, good+"\n"), "r", 9); err != nil {
		t.Error(err)
	}
	for _, wrong := range []fencehttp.Secret{{}, secret(t, "0123456789abcdef")} {
		if err := claim(t.Context(), leader(s), s.URL, wrong, "r", 10); !errors.Is(err, fence.ErrUnclaimed) || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("a claim without the secret: %v; want %v", err, fence.ErrUnclaimed)
		}
	}
	if err := put(t, leader(s), s.URL, 10); !errors.Is(err, fence.ErrUnclaimed) {
		t.Errorf("a write before the claim: %v; want %v", err, fence.ErrUnclaimed)
	}
	if err := put(t, leader(s), s.URL, 9); err != nil {
		t.Errorf("a write after the claim: %v", err)
	}
}

// The secret stays between the client and the guard.
func TestSecretIsNotTold(t *testing.T) {
	var seen http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	defer upstream.Close()
	at, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	own, log := secret(t, secretText), new(strings.Builder)
	logger := slog.New(slog.NewTextHandler(log, nil))
	cfg := fencehttp.Config{MayClaim: own.IsShown, Open: func(r *http.Request) bool { return r.URL.Path == "/open" }, Logger: logger}
	h, err := fencehttp.NewProxy(newGuard(t, new(fence.Memory), fence.GuardConfig{Logger: logger}), at, nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, h, "")
	for path, shown := range map[string]string{"/": "r;5", "/open": ""} {
		headers := []string{fencehttp.ClaimHeader, secretText, "Authorization", "Bearer other"}
		if shown != "" {
			headers = append(headers, fencehttp.Header, shown)
		}
		if got := post(t, s.Client(), s.URL+path, headers...); got != "200 " {
			t.Fatalf("%s: %s", path, got)
		}
		if seen.Get(fencehttp.ClaimHeader) != "" || seen.Get("Authorization") != "Bearer other" {
			t.Errorf("%s: the upstream sees %v", path, seen)
		}
	}
	post(t, s.Client(), s.URL, fencehttp.ClaimHeader, secretText, fencehttp.Header, "nonsense")
	logger.Warn("it", "secret", own, "all", []any{own, &own})
	if text := fmt.Sprintf("%s %v %+v %#v %q %x %d", own, own, own, own, own, own, &own) + log.String(); strings.Contains(text, secretText) || strings.Contains(text, fmt.Sprintf("%x", secretText)) {
		t.Errorf("the secret is in %s", text)
	}
}

func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o400, 0o600, 0o640} {
		write(secretText+"\n", mode)
		if os.Geteuid() != 0 && mode == 0o400 {
			_ = os.Chmod(path, 0o400)
		}
		if got, err := fencehttp.ReadSecret(path); err != nil || got != secret(t, secretText) {
			t.Errorf("%#o: %v", mode, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{secretText, 0o644, "want 0640"},
		{secretText, 0o602, "want 0600"},
		{"", 0o600, "want 16 to 1024"},
		{"short", 0o600, "want 16 to 1024"},
		{strings.Repeat("x", 1025), 0o600, "want 16 to 1024"},
		{strings.Repeat("x", 10000), 0o600, "want 16 to 1024"},
		{"first-line-of-it\nsecond-line-of-it", 0o600, "several lines"},
		{"sécret-with-accents", 0o600, "printable"},
	} {
		write(tt.text, tt.mode)
		if _, err := fencehttp.ReadSecret(path); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || tt.text != "" && strings.Contains(err.Error(), tt.text) {
			t.Errorf("%.20q, %#o: %v; want %q", tt.text, tt.mode, err, tt.want)
		}
	}
	if _, err := fencehttp.ReadSecret(path + "-not"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Those that come by the socket may claim, and those that come to a port of the same server may not.
func TestClaimBySocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claims")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, fencehttp.NewHandler(newGuard(t, new(fence.Memory), fence.GuardConfig{}), nil, fencehttp.Config{MayClaim: fencehttp.IsFromSocket}), "")
	go func() { _ = s.Config.Serve(l) }()
	defer l.Close()
	by := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}, DisableKeepAlives: true}}
	if err := claim(t.Context(), by, "http://socket", fencehttp.Secret{}, "r", 7); err != nil {
		t.Error(err)
	}
	if err := claim(t.Context(), s.Client(), s.URL, fencehttp.Secret{}, "r", 8); !errors.Is(err, fence.ErrUnclaimed) {
		t.Errorf("by the port: %v", err)
	}
}
