//go:build linux

package register

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/electd/elect/fence"
)

// serve serves a register in a new run.
func serve(t *testing.T) (dir string, s *Server) {
	t.Helper()
	dir = t.TempDir()
	s, err := Serve(filepath.Join(dir, Socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, s
}

func open(t *testing.T, dir, name string) *Client {
	t.Helper()
	c, err := Open(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func read(t *testing.T, dir string) []Operation {
	t.Helper()
	all, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestOperations: the answers to a client, its records, and what is read of them agree.
func TestOperations(t *testing.T) {
	dir, s := serve(t)
	c := open(t, dir, "c")
	ctx := t.Context()
	answers := []func() (Answer, error){
		func() (Answer, error) { return c.Read(ctx) },
		func() (Answer, error) { return c.Write(ctx, 7, "a") },
		func() (Answer, error) { return c.Write(ctx, 6, "b") },
		func() (Answer, error) { return c.Stream(ctx, fence.Sequence{Token: 7, Position: 2}) },
		func() (Answer, error) { return c.Stream(ctx, fence.Sequence{Token: 7, Position: 1}) },
		func() (Answer, error) { return c.Read(ctx) },
		func() (Answer, error) { return c.Peek(ctx) },
	}
	last := fence.Sequence{Token: 7, Position: 2}
	want := []Answer{
		{}, {Highest: 7}, {Highest: 7, Stale: true}, {Highest: 7, Last: last}, {Highest: 7, Last: last, Stale: true},
		{Highest: 7, Seen: "a"}, {Highest: 7, Seen: "b"},
	}
	for i, do := range answers {
		if got, err := do(); err != nil || got != want[i] {
			t.Errorf("operation %d: %+v, %v; want %+v", i+1, got, err, want[i])
		}
	}
	all := read(t, dir)
	if len(all) != len(want) {
		t.Fatalf("%d operations; want %d", len(all), len(want))
	}
	var before int64
	for i, o := range all {
		if o.Client != "c" || o.N != int64(i+1) || o.Call < before || o.Return < o.Call || o.Resolved {
			t.Errorf("%+v", o)
		}
		before = o.Return
		if got := (Answer{Stale: o.Result == Stale, Highest: o.Highest, Seen: o.Seen, Last: o.Last}); got != want[i] || !got.Stale && o.Result != OK {
			t.Errorf("%+v; want %+v", o, want[i])
		}
	}
	if w := all[2]; w.Op != Write || w.Token != 6 || w.Value != "b" {
		t.Errorf("%+v", w)
	}
	if q := all[3]; q.Op != Stream || q.Token != 7 || q.Position != 2 {
		t.Errorf("%+v", q)
	}
	if got := s.Stats(); got != (Stats{Writes: 2, Refused: 1, Streams: 2, OutOfTurn: 1, Reads: 3}) {
		t.Errorf("%+v", got)
	}
}

// TestKeys: each key has a register of its own, and all count.
func TestKeys(t *testing.T) {
	dir, s := serve(t)
	c := open(t, dir, "c")
	for i, w := range []struct {
		key   int64
		token fence.Token
		want  Answer
	}{{1, 7, Answer{Highest: 7}}, {2, 3, Answer{Highest: 3}}, {1, 6, Answer{Highest: 7, Stale: true}}, {2, 4, Answer{Highest: 4}}} {
		if got, err := c.WriteKey(t.Context(), w.key, w.token, fmt.Sprint(i)); err != nil || got != w.want {
			t.Errorf("%+v: %+v, %v", w, got, err)
		}
		if o := read(t, dir)[i]; o.Key != w.key || o.Token != int64(w.token) {
			t.Errorf("%+v is recorded as %+v", w, o)
		}
	}
	if got := s.Stats(); got.Writes != 4 || got.Refused != 1 {
		t.Errorf("%+v; want 4 writes, one of them refused", got)
	}
}

// TestLinearizable has many clients at once, and porcupine find an order of what
// they saw in which each operation takes place between call and return.
func TestLinearizable(t *testing.T) {
	dir, _ := serve(t)
	var all sync.WaitGroup
	for i := range 8 {
		c := open(t, dir, fmt.Sprint("c", i))
		all.Go(func() {
			for n := range 50 {
				var err error
				if n%3 == 2 {
					_, err = c.Read(t.Context())
				} else {
					_, err = c.Write(t.Context(), fence.Token(1+n/10+i%3), fmt.Sprint(i, "/", n))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var history []porcupine.Operation
	refused := 0
	for i, o := range read(t, dir) {
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Output: o, Call: o.Call, Return: o.Return})
		if o.Result == Stale {
			refused++
		}
	}
	if len(history) != 400 || refused == 0 {
		t.Errorf("%d operations, %d refused; want 400 and some", len(history), refused)
	}
	type held struct {
		token int64
		value string
	}
	model := porcupine.Model{
		Init: func() any { return held{} },
		Step: func(state, input, output any) (bool, any) {
			h, o := state.(held), input.(Operation)
			switch {
			case o.Op == Read:
				return o.Seen == h.value && o.Highest == h.token, h
			case o.Result == Stale:
				return o.Token < h.token && o.Highest == h.token, h
			}
			return o.Token >= h.token && o.Highest == o.Token, held{o.Token, o.Value}
		},
	}
	if !porcupine.CheckOperations(model, history) {
		t.Error("no order explains what the clients saw")
	}
}

// TestBrokenRequests: an incomplete or invalid request changes nothing, and others are served.
func TestBrokenRequests(t *testing.T) {
	dir, s := serve(t)
	whole := string(line{Client: "x", N: 1, Op: Write, Token: 9, Value: "v"}.bytes())
	for _, request := range []string{
		"", whole[:10], strings.TrimSuffix(whole, "\n"), "no request\n", `{"client":"x","n":1,"op":"write"}` + "\n",
		strings.Repeat("x", 2*lineSize) + "\n",
	} {
		conn, err := net.Dial("unix", filepath.Join(dir, Socket))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(request)) // the server may have hung up before its end
		_ = conn.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(conn) // ends when the server has ended it
		if strings.Contains(string(answer), `"ok"`) {
			t.Errorf("%.40q was answered by %s", request, answer)
		}
		conn.Close()
	}
	if got := s.Stats(); got != (Stats{}) {
		t.Errorf("they have changed something: %+v", got)
	}
	if got, err := open(t, dir, "c").Write(t.Context(), 1, "v"); err != nil || got.Highest != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestServerGone: a client reports whether it has asked, and asks a later server; operations that
// were never carried out are known when a server has ended well.
func TestServerGone(t *testing.T) {
	dir, s := serve(t)
	c := open(t, dir, "c")
	if _, err := c.Write(t.Context(), 1, "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	_, err := c.Write(t.Context(), 1, "b")
	if err == nil || errors.Is(err, ErrNotCalled) {
		t.Errorf("on the connection that is gone: %v; want an error that leaves it open", err)
	}
	if _, err := c.Write(t.Context(), 1, "c"); !errors.Is(err, ErrNotCalled) {
		t.Errorf("without a server: %v; want %v", err, ErrNotCalled)
	}
	all := read(t, dir)
	if len(all) != 2 || all[0].Result != OK || all[1].Value != "b" || all[1].Result != Never || all[1].Return != 0 {
		t.Errorf("%+v", all)
	}
	if _, err := Serve(filepath.Join(dir, Socket)); err == nil {
		t.Error("a second server has begun, with nothing written and no token shown")
	}
	if _, err := os.Stat(filepath.Join(dir, Socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestCutShort: the end of the context ends the wait for an answer, and the outcome
// is open until the server tells it.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	silent, err := net.Listen("unix", filepath.Join(dir, Socket))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	heard := make(chan string, 1)
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	serving.Go(func() {
		conn, err := silent.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		text, _ := bufio.NewReader(conn).ReadString('\n')
		heard <- text
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	})
	c := open(t, dir, "c")
	if _, err := c.Write(ctx, 4, "v"); err == nil || errors.Is(err, ErrNotCalled) {
		t.Errorf("%v; want one that leaves it open", err)
	}
	if r, err := parse([]byte(<-heard)); err != nil || r.Token != 4 || r.Value != "v" || r.Client != "c" || r.N != 1 {
		t.Errorf("the server heard %+v, %v", r, err)
	}
	if _, err := c.Write(ctx, 4, "w"); !errors.Is(err, ErrNotCalled) || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	all := read(t, dir)
	if len(all) != 1 || all[0].Result != Unknown || all[0].Return != 0 || all[0].Resolved {
		t.Errorf("%+v", all)
	}
}

// TestLongPath: a run may be in a directory whose name is longer than a socket's
// address.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Serve(filepath.Join(dir, Socket))
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, "c")
	if got, err := c.Write(t.Context(), 3, "v"); err != nil || got.Highest != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{filepath.Join(dir, ops), filepath.Join(dir, ends)}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left: %q, %v", names, err)
	}
}

// TestLogs: half a line at the end is nothing, and what cannot be understood is an
// error.
func TestLogs(t *testing.T) {
	const call = `{"client":"c","n":1,"op":"read","call":5}` + "\n"
	for name, c := range map[string]struct {
		log  string
		ops  int
		fail bool
	}{
		"nothing":              {"", 0, false},
		"half a call":          {call[:20], 0, false},
		"half a return":        {call + `{"client":"c","n":1,"ret`, 1, false},
		"two calls":            {call + strings.Replace(call, `"n":1`, `"n":2`, 1), 2, false},
		"no JSON":              {"x\n", 0, true},
		"a return of nothing":  {`{"client":"c","n":1,"return":5,"result":"ok"}` + "\n", 0, true},
		"a return of another":  {call + `{"client":"c","n":2,"return":6,"result":"ok"}` + "\n", 0, true},
		"a return that is two": {call + strings.Repeat(`{"client":"c","n":1,"return":6,"result":"ok"}`+"\n", 2), 0, true},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ops), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ops, "c.ndjson"), []byte(c.log), 0o644); err != nil {
			t.Fatal(err)
		}
		all, err := ReadDir(dir)
		if (err != nil) != c.fail || !c.fail && len(all) != c.ops {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	if all, err := ReadDir(t.TempDir()); err != nil || len(all) != 0 {
		t.Errorf("a run without a register: %v, %v", all, err)
	}
}

// TestNameIsTaken: a client does not write on in the log of another.
func TestNameIsTaken(t *testing.T) {
	dir, _ := serve(t)
	open(t, dir, "c")
	if _, err := Open(dir, "c"); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v; want %v", err, os.ErrExist)
	}
	if a, b := Name("n1"), Name("n1"); a == b {
		t.Errorf("%q twice", a)
	}
}

// BenchmarkReadDir reads what one client did in a quarter of an hour.
func BenchmarkReadDir(b *testing.B) {
	dir := b.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ops), 0o755); err != nil {
		b.Fatal(err)
	}
	const n = 90_000
	var log []byte
	for i := range int64(n) {
		at := int64(1e15) + i*10_000_000
		log = append(log, line{Client: "n1-4711-2355935268637", N: i + 1, Op: Write, Token: 5, Value: fmt.Sprint("n1-4711-2355935268637/", i), Call: at}.bytes()...)
		log = append(log, line{Client: "n1-4711-2355935268637", N: i + 1, Return: at + 100_000, Result: OK, Highest: 5}.bytes()...)
	}
	if err := os.WriteFile(filepath.Join(dir, ops, "c.ndjson"), log, 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if all, err := ReadDir(dir); err != nil || len(all) != n {
			b.Fatal(len(all), err)
		}
	}
	b.ReportMetric(float64(len(log))/n, "bytes/operation")
}
