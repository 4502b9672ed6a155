package page

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// under is where the page is on its server: not at the root, and the server knows nothing of it.
const under = "/of/somebody/lab/"

// chromium returns the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	long.Test(t, "a browser")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no Chromium: install Debian's package chromium")
	}
	t.Skip("NOT CHECKED: there is no Chromium; install Debian's package chromium to have the page tried in it")
	return ""
}

// electlab is a run of it, whose cache is in a folder of the test.
func electlab(t *testing.T, program, cache string, args ...string) *exec.Cmd {
	t.Helper()
	kept, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "GOCACHE="+strings.TrimSpace(string(kept)))
	return cmd
}

// write returns a folder that electlab page --write has made.
func write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	if out, err := electlab(t, harness.Build(t, "../../lab/cmd/electlab"), t.TempDir(), "page", "--write", dir).CombinedOutput(); err != nil {
		t.Fatalf("electlab page --write: %v\n%s", err, out)
	}
	return dir
}

// site is what a browser of a test can reach.
type site struct {
	*httptest.Server
	mu      sync.Mutex
	gone    bool
	answers []string // a line for each request: its status and its URL
}

// serve serves files below under, with a plain file server.
func serve(t *testing.T, files http.FileSystem) *site {
	s := &site{}
	pages := http.StripPrefix(under, http.FileServer(files))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		gone := s.gone
		s.mu.Unlock()
		if gone {
			panic(http.ErrAbortHandler)
		}
		seen := &status{ResponseWriter: w, code: http.StatusOK}
		switch {
		case r.Host != s.Listener.Addr().String():
			seen.WriteHeader(http.StatusBadGateway) // the browser wants to go elsewhere
		case !strings.HasPrefix(r.URL.Path, under):
			seen.WriteHeader(http.StatusNotFound)
		default:
			pages.ServeHTTP(seen, r)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers = append(s.answers, fmt.Sprintf("%d %s %s%s", seen.code, r.Method, r.Host, r.URL.Path))
	}))
	t.Cleanup(s.Close)
	return s
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// away has the server give no answers, but end the connections; or end that.
func (s *site) away(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = is
}

// failed returns the requests that were not answered with a file of the folder.
func (s *site) failed() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.answers {
		if !strings.HasPrefix(a, "200 ") && !strings.HasPrefix(a, "304 ") && !ownBusiness.MatchString(a) {
			all = append(all, a)
		}
	}
	return all
}

// ownBusiness are requests that Chromium makes whatever the page is, and in spite of its flags; a page could want
// something else from there.
var ownBusiness = regexp.MustCompile(`^502 \w+ ((accounts|clients\d*|www)\.google\.com|(update|[a-z]+-pa|safebrowsing|content-autofill)\.googleapis\.com)[:/]`)

// tab is a page in a browser.
type tab struct {
	t       *testing.T
	ctx     context.Context
	console iter.Seq2[chromedp.ConsoleMessage, error]
}

// open starts a browser that reaches the server at address, and nothing else, and has it do what comes before a page.
func open(t *testing.T, address string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), // the cleanup ends it

		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.ProxyServer(address), chromedp.Flag("proxy-bypass-list", "<-loopback>"))
	t.Cleanup(stop)
	ctx, done := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("the browser's end: %v", err)
		}
		done()
	})
	if err := chromedp.Do(ctx, before...); err != nil {
		t.Fatal(err)
	}
	return &tab{t: t, ctx: ctx, console: chromedp.Console(ctx)}
}

// said returns what is in the console, once.
func (b *tab) said() (all []string) {
	b.t.Helper()
	const last = "the test reads the console"
	eval[chromedp.Void](b, "console.debug('"+last+"')")
	for m, err := range b.console {
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Text == last {
			break
		}
		all = append(all, m.String())
	}
	return all
}

// must has the browser do something within the patience of tests.
func (b *tab) must(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of a script; a promise is awaited.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return value
}

// until waits until a script is true.
func (b *tab) until(script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](script, chromedp.WithPollingTimeout(0))); err != nil {
		b.t.Fatalf("%s: %v; the status is %q", script, err, eval[string](b, "document.getElementById('status')?.textContent ?? 'none'"))
	}
}

// mode chooses light or dark.
func mode(scheme string) chromedp.Action[chromedp.Void] { return media("prefers-color-scheme", scheme) }

// calm asks for less motion.
var calm = media("prefers-reduced-motion", "reduce")

func media(feature, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
		})
		return err
	})
}
