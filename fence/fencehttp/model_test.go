package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// TestProxyModel: leaders come and go, clients give up, connections on both sides of the proxy
// break, answers begin early. The upstream finishes what it has begun. It is never at
// work for two tokens at once, nor for a smaller one after a greater was let in, and who was
// refused was not heard of there.
func TestProxyModel(t *testing.T) {
	served := 0
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { served += playProxy(t, seed) })
		})
	}
	if served < 1000 && !t.Failed() {
		t.Errorf("%d requests reached the upstream in all: this has shown little", served)
	}
}

// drips is a body that comes in pieces.
type drips struct {
	left  int
	every time.Duration
}

func (d *drips) Read(b []byte) (int, error) {
	if d.left--; d.left < 0 {
		return 0, io.EOF
	}
	time.Sleep(d.every)
	return copy(b, "x"), nil
}

// playProxy reports how many requests have reached the upstream.
func playProxy(t *testing.T, seed uint64) (served int) {
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	working, newest, heard := map[fence.Token]int{}, fence.Token(0), map[string]bool{}
	admit := func(token fence.Token, what string) {
		for other := range working {
			if other < token {
				t.Errorf("%v %s, and the upstream is at work for %v", token, what, other)
			}
		}
	}
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, err := fencehttp.FromHeader(r.Header)
		takes, _ := time.ParseDuration(r.URL.Query().Get("takes"))
		mu.Lock()
		admit(shown.Token, "has come")
		if err != nil || shown.Token < newest {
			t.Errorf("%v has come after %v (%v)", shown, newest, err)
		}
		newest = max(newest, shown.Token)
		heard[r.URL.Query().Get("id")] = true
		served++
		mu.Unlock()
		work := func() {
			mu.Lock()
			admit(shown.Token, "is at work")
			if shown.Token < newest {
				t.Errorf("%v is at work after %v", shown.Token, newest)
			}
			working[shown.Token]++
			mu.Unlock()
			time.Sleep(takes / 3)
			mu.Lock()
			if working[shown.Token]--; working[shown.Token] == 0 {
				delete(working, shown.Token)
			}
			mu.Unlock()
		}
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		if r.URL.Query().Get("begins") != "" {
			_ = rc.Flush()
		}
		work()
		// It works on each piece as it comes, and again on the whole. Of what breaks off it
		// does no more.
		for b := make([]byte, 1<<10); err == nil; {
			var n int
			if n, err = r.Body.Read(b); n > 0 {
				work()
			}
		}
		if err != io.EOF {
			return
		}
		work()
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<14))
	})
	drain := []time.Duration{longest, -1}[random.IntN(2)]
	s := newScene(t, upstream, fence.GuardConfig{Drain: drain}, fencehttp.Config{MayClaim: fencehttp.Anyone, Linger: longest, Lost: longest})
	var all sync.WaitGroup
	for id := range 50 {
		token, starts := fence.Token(1+random.IntN(5)), time.Duration(random.IntN(300))*time.Millisecond
		starts += time.Duration(token) * 60 * time.Millisecond
		takes, claims := time.Duration(random.Int64N(int64(longest))), random.IntN(4) == 0
		begins := []string{"", "1"}[random.IntN(2)]
		gives := time.Duration(random.IntN(100)) * time.Millisecond
		body := &drips{left: random.IntN(10), every: time.Duration(random.IntN(20)) * time.Millisecond}
		method := []string{http.MethodPost, http.MethodGet, http.MethodPut}[random.IntN(3)]
		all.Go(func() {
			time.Sleep(starts)
			ctx, cancel := context.WithTimeout(fence.NewContext(t.Context(), token), gives)
			defer cancel()
			if claims {
				if err := claim(ctx, s.client, "http://proxy", fencehttp.Secret{}, "r", token); err == nil {
					mu.Lock()
					admit(token, "has claimed")
					newest = max(newest, token)
					mu.Unlock()
				}
				return
			}
			url := fmt.Sprintf("http://proxy/?id=%d&takes=%v&begins=%s", id, takes, begins)
			r, err := http.NewRequestWithContext(ctx, method, url, io.NopCloser(body))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := s.client.Do(r)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !errors.Is(err, fence.ErrUnknownOutcome) && heard[fmt.Sprint(id)] {
				t.Errorf("%v is told %v, and the upstream has heard of it", token, err)
			}
		})
	}
	for range 4 {
		breaks, side := time.Duration(random.IntN(600))*time.Millisecond, []*pipes{s.front, s.back}[random.IntN(2)]
		all.Go(func() {
			time.Sleep(breaks)
			side.cut()
		})
	}
	all.Wait()
	time.Sleep(time.Second) // the bodies that nobody reads any more end, too
	if err := s.guard.Claim(t.Context(), "r", 9); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	admit(9, "has claimed")
	return served
}
