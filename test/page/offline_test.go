package page

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOffline: the page opens and steps where the network is away and where its server is, at the second time; with a
// server, it is what the server has, and what was kept of an earlier page is removed.
func TestOffline(t *testing.T) {
	chromium(t)
	dir := write(t)
	s := serve(t, http.Dir(dir))
	b := open(t, s.URL)
	b.must(chromedp.Navigate(s.URL + under))
	b.until(ready)
	const kept = "navigator.serviceWorker.ready.then(() => caches.keys()).then(k => k.length === 1 && caches.open(k[0]).then(c => c.keys()).then(k => k.length))"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b.until(fmt.Sprintf("%s.then(n => n === %d)", kept, len(files)-2)) // not the worker, nor the machines twice

	works := func(how string) {
		t.Helper()
		b.must(chromedp.Navigate("about:blank"), chromedp.Navigate(s.URL+under))
		b.until(ready + " && document.querySelector('.now')?.textContent.includes('event') && !document.querySelector('.now').textContent.includes('…')")
		b.must(chromedp.KeyEvent("e"))
		b.says("#said", "is elected, with token 1")
		t.Logf("it works with %s", how)
	}
	s.away(true) // as if the network were cut: what a page's tools emulate does not hold for its service worker
	works("no network")
	s.away(false)

	// Another page takes the place of this one, and of what was kept of it.
	const name = "caches.keys().then(k => k[0])"
	before := eval[string](b, name)
	change := func(name string, to func(text []byte) []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, to(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var was, is string
	change("index.html", func(text []byte) []byte {
		other := bytes.Replace(text, []byte("<body>"), []byte("<body class=another>"), 1)
		was, is = fmt.Sprintf("%x", sha256.Sum256(text))[:16], fmt.Sprintf("%x", sha256.Sum256(other))[:16]
		return other
	})
	change("offline.js", func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(was), []byte(is)) })
	b.must(chromedp.Reload())
	const another = "document.body.className === 'another'"
	if !eval[bool](b, another) {
		t.Error("the server has another page, and the browser shows the one that it has kept")
	}
	b.until(fmt.Sprintf("%s.then(k => k !== %q)", name, before))
	b.until(fmt.Sprintf("%s.then(n => n === %d)", kept, len(files)-2))

	s.Close()
	works("no server")
	if !eval[bool](b, another) {
		t.Error("without the server the browser shows a page from before the last one")
	}
	if failed := s.failed(); len(failed) > 0 {
		t.Errorf("the page asked for what is not in its folder: %q", failed)
	}
}
