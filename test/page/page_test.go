package page

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/harness"
)

//go:embed testdata/axe.min.js
var axe string

const ready = "elect.state.value.phase === 'ready'"

// TestPage has the folder served by a server that knows nothing of it, below a path.
func TestPage(t *testing.T) {
	chromium(t)
	s := serve(t, http.Dir(write(t)))
	b := open(t, s.URL)
	b.must(chromedp.Navigate(s.URL + under))
	b.until(ready)
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("painted after %.0f ms, the machines were ready by %.0f ms, load %s",
		eval[float64](b, "performance.getEntriesByName('first-contentful-paint')[0].startTime"), eval[float64](b, "performance.now()"), load)

	if got := eval[string](b, "elect.call('no such method').catch(e => e.message)"); !strings.Contains(got, "no such method") {
		t.Errorf("a call of an unknown method: %q; want the machines to say so", got)
	}
	if got := eval[int](b, "Promise.all([1, 2, 3].map(() => elect.call('catalogue').then(c => c.protocols.length))).then(n => n[2])"); got < 7 {
		t.Errorf("the machines have %d protocols; want 7 at least", got)
	}

	// The keyboard.
	shown := "document.getElementById('help').open"
	b.must(chromedp.KeyEvent("?"))
	b.until(shown)
	violations(b, "light", "with the help")
	violations(b, "dark", "with the help")
	b.must(chromedp.KeyEvent("?"))
	b.until("!" + shown)
	violations(b, "light", "")
	violations(b, "dark", "")
	pictures(b)

	if failed := s.failed(); len(failed) > 0 {
		t.Errorf("the page asked for what is not in its folder: %q", failed)
	}
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}

	// Again, with what the browser has kept.
	b.must(chromedp.Reload())
	b.until(ready)
}

// TestServed has electlab serve the page, with its policy.
func TestServed(t *testing.T) {
	chromium(t)
	cmd := electlab(t, harness.Build(t, "../../lab/cmd/electlab"), t.TempDir(), "page")
	cmd.Stderr = os.Stderr
	_, out := harness.Start(t, cmd)
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	b := open(t, strings.TrimSuffix(url, "/"))
	b.must(chromedp.Navigate(url))
	b.until(ready)
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// TestBroken opens pages that cannot work, each of which must say why.
func TestBroken(t *testing.T) {
	chromium(t)
	folder := write(t)
	without := chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "delete globalThis.WebAssembly"})
		return err
	})
	for _, c := range []struct {
		name   string
		change func(dir string) error
		before []chromedp.Action[chromedp.Void]
		says   string
	}{
		{"no machines", func(dir string) error { return remove(dir, "machines.*") }, nil, "The machines are missing"},
		{"no WebAssembly", nil, []chromedp.Action[chromedp.Void]{without}, "This browser has no WebAssembly"},
		{"no worker", func(dir string) error { return remove(dir, "worker-*") }, nil, "its file cannot be loaded"},
		{"a page for everything", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "machines.wasm.gz"), []byte("<!doctype html>"), 0o600)
		}, nil, "The machines are missing"},
		{"half of the machines", func(dir string) error { return os.Truncate(filepath.Join(dir, "machines.wasm.gz"), 100_000) }, nil, "want the page loaded anew"},
		{"other machines", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "machines.wasm.gz"), []byte("\x00asm and more"), 0o600)
		}, nil, "want the page loaded anew"},
		{"plain machines only", func(dir string) error { return remove(dir, "*.gz") }, nil, "The machines are ready."},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				if err := c.change(dir); err != nil {
					t.Fatal(err)
				}
			}
			s := serve(t, http.Dir(dir))
			b := open(t, s.URL, c.before...)
			b.must(chromedp.Navigate(s.URL + under))
			b.until(fmt.Sprintf("document.getElementById('status')?.textContent.includes(%q)", c.says))
			if c.says != "The machines are ready." {
				if got := eval[string](b, "elect.call('catalogue').catch(e => e.message)"); !strings.Contains(got, c.says) {
					t.Errorf("a call says %q; want %q", got, c.says)
				}
			}
		})
	}
}

func remove(dir, pattern string) error {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("nothing is named %s", pattern)
	}
	for _, path := range found {
		if err == nil {
			err = os.Remove(path)
		}
	}
	return err
}

// violations has axe look at the page as it is, in light or dark.
func violations(b *tab, scheme, how string) {
	b.t.Helper()
	b.must(mode(scheme))
	found := eval[[]string](b, axe+`;axe.run().then(r => r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join(" ")))`)
	for _, v := range found {
		b.t.Errorf("%s %s: %s", scheme, how, v)
	}
}

// pictures keeps what the page looks like at three sizes.
func pictures(b *tab) {
	b.t.Helper()
	dir := b.t.ArtifactDir()
	for _, size := range []struct{ width, height int64 }{{390, 844}, {1024, 768}, {1600, 1000}} {
		for _, scheme := range []string{"light", "dark"} {
			b.must(chromedp.EmulateViewport(size.width, size.height), mode(scheme))
			if wide := eval[bool](b, "document.documentElement.scrollWidth > innerWidth"); wide {
				b.t.Errorf("the page is wider than %d", size.width)
			}
			ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
			picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
			cancel()
			if err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%s.png", size.width, scheme)), picture, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}
