package page

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/webpage"
)

// small is a page whose machines are a few bytes.
func small(t *testing.T) *Site {
	t.Helper()
	packed, err := pack([]byte("\x00asm"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{files: map[string]*file{
		"index.html":         {data: []byte("<!doctype html>")},
		licences:             {data: []byte(ours + "under a licence.\n")},
		"app-ABCDEFGH.js":    {data: []byte("'use strict'")},
		program:              {data: []byte("\x00asm"), packed: packed},
		compressed:           {data: packed},
		"style-ABCDEFGH.css": {data: []byte("body {}")},
		offline:              {data: []byte("keep(FILES)")},
	}}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHandler(t *testing.T) {
	h := small(t).Handler("lab.example")
	for _, c := range []struct {
		name, method, host, path, accepts, match string
		code                                     int
		header                                   map[string]string
	}{
		{name: "index", path: "/", code: 200, header: map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "Content-Security-Policy": policy, "Content-Encoding": "", "Vary": "Accept-Encoding",
		}},
		{name: "a hashed name", path: "/app-ABCDEFGH.js", accepts: "br, gzip;q=0.8", code: 200, header: map[string]string{
			"Content-Type": "text/javascript; charset=utf-8", "Cache-Control": "public, max-age=31536000, immutable", "Content-Encoding": "gzip",
		}},
		{name: "no gzip", path: "/style-ABCDEFGH.css", accepts: "gzip; q=0, br", code: 200, header: map[string]string{"Content-Encoding": ""}},
		{name: "the machines", path: "/" + program, accepts: "gzip", code: 200, header: map[string]string{
			"Content-Type": "application/wasm", "Content-Encoding": "gzip", "Cache-Control": "no-cache",
		}},
		{name: "the compressed machines", path: "/" + compressed, accepts: "gzip", code: 200, header: map[string]string{
			"Content-Type": "application/gzip", "Content-Encoding": "",
		}},
		{name: "head", method: "HEAD", path: "/", code: 200, header: map[string]string{"Content-Length": "15"}},
		{name: "no such file", path: "/etc/passwd", code: 404, header: map[string]string{"X-Content-Type-Options": "nosniff"}},
		{name: "post", method: "POST", path: "/", code: 405, header: map[string]string{"Allow": "GET, HEAD"}},
		{name: "localhost", host: "LocalHost:8080", path: "/", code: 200},
		{name: "an address", host: "[::1]:8080", path: "/", code: 200},
		{name: "the name", host: "lab.example", path: "/", code: 200},
		{name: "another name", host: "rebound.example:8080", path: "/", code: 421, header: map[string]string{"Content-Security-Policy": policy}},
		{name: "no name", host: "localhost.example", path: "/", code: 421},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := get(h, c.method, c.host, c.path, "Accept-Encoding", c.accepts)
			if w.Code != c.code {
				t.Errorf("%d %s; want %d", w.Code, w.Body, c.code)
			}
			for name, want := range c.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q; want %q", name, got, want)
				}
			}
			if tag := w.Header().Get("ETag"); c.code == 200 {
				if again := get(h, c.method, c.host, c.path, "Accept-Encoding", c.accepts, "If-None-Match", tag); again.Code != 304 {
					t.Errorf("asked again with the tag %s: %d; want 304", tag, again.Code)
				}
			}
		})
	}
	plain, packed := get(h, "", "", "/"), get(h, "", "", "/", "Accept-Encoding", "gzip")
	if plain.Header().Get("ETag") == packed.Header().Get("ETag") {
		t.Error("both forms of a file have one tag; want two")
	}
	if data, err := expand(packed.Body.Bytes()); err != nil || string(data) != plain.Body.String() {
		t.Errorf("compressed it is %q, %v; want %q", data, err, plain.Body)
	}
}

func get(h http.Handler, method, host, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if r.Host = "127.0.0.1:8080"; host != "" {
		r.Host = host
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestWrite: a folder of the page may be written again, and no other folder is touched.
func TestWrite(t *testing.T) {
	s, dir := small(t), filepath.Join(t.TempDir(), "a", "lab")
	for range 2 {
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range s.files {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != string(f.data) {
			t.Errorf("%s: %q, %v; want %q", name, data, err, f.data)
		}
	}
	if text, err := fs.ReadFile(webpage.Files(), licences); err != nil || !strings.HasPrefix(string(text), ours) {
		t.Errorf("%s begins with %.40q, %v; want %q, by which a folder is known", licences, text, err, ours)
	}

	// A later page takes the place of an earlier one, and of nothing else.
	outside := filepath.Join(t.TempDir(), "outside")
	for path, text := range map[string]string{
		outside: "theirs", filepath.Join(dir, "app-OLDOLD12.js"): "old", filepath.Join(dir, "vendor-THEIRS12.js"): "theirs", filepath.Join(dir, "CNAME"): "theirs",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index := filepath.Join(dir, "index.html")
	if err := errors.Join(os.Remove(index), os.Symlink(outside, index), os.Symlink(outside, index+".new")); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		outside: "theirs", index: "<!doctype html>", filepath.Join(dir, "vendor-THEIRS12.js"): "theirs", filepath.Join(dir, "CNAME"): "theirs",
	} {
		if data, err := os.ReadFile(path); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v; want %q", path, data, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); s.files[name] == nil && name != "vendor-THEIRS12.js" && name != "CNAME" || !e.Type().IsRegular() {
			t.Errorf("the folder has %s; want the page and what others put there", e)
		}
	}

	for name, files := range map[string]map[string]string{
		"an index":           {"index.html": "mine"},
		"machines":           {"index.html": "mine", program: "\x00asm"},
		"another's licences": {"index.html": "mine", licences: "The page is part of something else"},
	} {
		t.Run(name, func(t *testing.T) {
			others := t.TempDir()
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(others, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Write(others); err == nil || !strings.Contains(err.Error(), "other files") {
				t.Errorf("written into another folder: %v; want a refusal", err)
			}
			if data, err := os.ReadFile(filepath.Join(others, "index.html")); err != nil || string(data) != "mine" {
				t.Errorf("another index.html is now %q, %v", data, err)
			}
		})
	}
}

// TestKept: what is kept is used if all of it is there and nobody else could have put it there.
func TestKept(t *testing.T) {
	cache := t.TempDir()
	folder := filepath.Join(cache, "elect", "page")
	want := made{packed: []byte("machines"), glue: []byte("glue")}
	again := func(stem string) (made, bool, error) {
		dir, err := private(cache)
		if err != nil {
			return made{}, false, err
		}
		defer dir.Close()
		return kept(dir, stem)
	}
	write := func() {
		t.Helper()
		dir, err := private(cache)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := keep(dir, "program-source", want); err != nil {
			t.Fatal(err)
		}
	}
	if _, found, err := again("program-source"); found || err != nil {
		t.Errorf("of an empty cache: %t, %v", found, err)
	}
	write()
	for stem, there := range map[string]bool{"program-source": true, "program-": true, "program-later": false, "other-": false} {
		if m, found, err := again(stem); err != nil || found != there || found && (string(m.packed) != "machines" || string(m.glue) != "glue") {
			t.Errorf("%s: %q, %t, %v; want found %t", stem, m, found, err, there)
		}
	}
	for _, end := range []string{endPacked, endGlue} {
		if err := os.Remove(filepath.Join(folder, "program-source"+end)); err != nil {
			t.Fatal(err)
		}
		if _, found, err := again("program-source"); found || err != nil {
			t.Errorf("without %s: %t, %v; want it not found", end, found, err)
		}
		write()
	}
	glue := filepath.Join(folder, "program-source"+endGlue)
	outside := filepath.Join(cache, "outside")
	if err := errors.Join(os.Rename(glue, outside), os.Symlink(outside, glue)); err != nil {
		t.Fatal(err)
	}
	if _, found, err := again("program-source"); found || !errors.Is(err, fs.ErrPermission) && err == nil {
		t.Errorf("through a link: %t, %v; want it refused", found, err)
	}
	write()
	for _, open := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, found, err := again("program-source"); found || err == nil {
			t.Errorf("%s may be written by all: %t, %v; want it refused", open, found, err)
		}
		if err := os.Chmod(open, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Rename(folder, outside+"2"), os.Symlink(outside+"2", folder)); err != nil {
		t.Fatal(err)
	}
	if _, found, err := again("program-source"); found || err == nil {
		t.Errorf("the folder is a link: %t, %v; want it refused", found, err)
	}
}

// TestForget: only what was not used for long goes away.
func TestForget(t *testing.T) {
	cache := t.TempDir()
	dir, err := private(cache)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for stem, age := range map[string]time.Duration{"new": 0, "old": unused + time.Hour} {
		if err := keep(dir, stem, made{}); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		for _, end := range []string{endPacked, endGlue} {
			if err := os.Chtimes(filepath.Join(dir.Path(), stem+end), then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, found, err := kept(dir, "new"); !found || err != nil {
		t.Fatalf("%t, %v", found, err)
	}
	forget(dir)
	names, err := dir.Names()
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"new.js", "new.wasm.gz"}) {
		t.Errorf("%q are left, %v; want the new ones", names, err)
	}
}

// TestSources: another source has another name, tests change nothing, and go's own settings do not change what is made.
func TestSources(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) string {
		t.Helper()
		path = filepath.Join(root, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		name, err := sources(filepath.Join(root, "lab", "page"))
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if name := write("lab/page/page.go", "package page"); name != "" {
		t.Errorf("without machines the source has the name %q; want none", name)
	}
	first := write("lab/page/machines/main.go", "package main")
	if same := write("lab/sim/sim_test.go", "package sim"); first == "" || same != first {
		t.Errorf("a test changes the name %q to %q", first, same)
	}
	second := write("lab/sim/sim.go", "package sim")
	if third := write("lab/sim/sim.go", "package sim // changed"); second == first || third == second {
		t.Errorf("the names are %q, %q, %q; want three", first, second, third)
	}

	env := filepath.Join(root, "env")
	if err := os.WriteFile(env, []byte("GOFLAGS=-tags=other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", env)
	t.Setenv("GOFLAGS", "")
	if flags, err := command(t.Context(), ".", "env", "GOFLAGS"); err != nil || flags != "-trimpath" {
		t.Errorf("GOFLAGS is %q, %v; want ours", flags, err)
	}
}

// TestDist: nothing in the page is inline, all of what it names is there, and all of it has a content type.
func TestDist(t *testing.T) {
	index, err := fs.ReadFile(webpage.Files(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	text := string(index)
	if strings.Contains(text, "<style") || strings.Count(text, "<script") != strings.Count(text, " src=") || strings.Contains(text, " style=") {
		t.Error("the page has inline scripts or styles, which its policy refuses; want files")
	}
	meta, _, _ := strings.Cut(policy, "; frame-ancestors") // which only a header can have
	if !strings.Contains(text, `content="`+meta+`"`) {
		t.Errorf("the page's own policy is not that of the server, without frame-ancestors; want %s", meta)
	}
	entries, err := fs.ReadDir(webpage.Files(), ".")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, e := range entries {
		data, err := fs.ReadFile(webpage.Files(), e.Name())
		if err != nil {
			t.Fatal(err)
		}
		f := &file{data: data}
		if err := f.finish(e.Name()); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
		total += len(f.packed)
	}
	t.Logf("the page is %d bytes compressed", total)
	if total > 150_000 {
		t.Errorf("the page is %d bytes compressed; want 150,000 at most", total)
	}
}

// TestFresh runs the test of build, that dist is what the sources give. The go command does not see which files outside
// of its module that test reads, and would keep its result for ever; here it sees them. Those of dist it sees as part of
// this program.
func TestFresh(t *testing.T) {
	for _, dir := range []string{"src", "vendor"} {
		if err := os.CopyFS(filepath.Join(t.TempDir(), dir), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-C", "build", "-count=1", "-run", "^TestFresh$").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMachines: they are compiled once, and then they are there without a toolchain.
func TestMachines(t *testing.T) {
	long.Test(t, "it compiles for the browser")
	cache := t.TempDir()
	gocache, err := command(t.Context(), ".", "env", "GOCACHE")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", gocache)
	t.Setenv("XDG_CACHE_HOME", cache)
	var said []string
	say := func(text string) { said = append(said, text) }
	s, err := Open(t.Context(), say)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "compiling") {
		t.Errorf("it said %q; want that it compiles", said)
	}
	for name, begin := range map[string]string{program: "\x00asm", compressed: "\x1f\x8b", glue: "//", "index.html": "<!doctype"} {
		if f := s.files[name]; f == nil || !strings.HasPrefix(string(f.data), begin) {
			t.Errorf("%s is missing, or does not begin with %q", name, begin)
		}
	}
	t.Logf("the machines are %d bytes, %d compressed", len(s.files[program].data), len(s.files[compressed].data))

	t.Setenv("PATH", t.TempDir())
	said = nil
	if _, err := Open(t.Context(), say); err != nil || len(said) > 0 {
		t.Errorf("again: %v, it said %q; want the machines that were kept", err, said)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := Open(t.Context(), say); err == nil || !strings.Contains(err.Error(), "want a Go toolchain") {
		t.Errorf("without a toolchain: %v; want it to be named", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, say); err == nil {
		t.Error("it opened although its context had ended")
	}
}
