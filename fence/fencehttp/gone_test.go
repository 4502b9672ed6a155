package fencehttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// A client that has gone ends its request after Linger. The upstream, whose connection breaks with
// it, may be at work for as long as Config.Lost says.
func TestLingerShorterThanLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, done := make(chan struct{}), make(chan struct{})
		s := newScene(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(begun)
				time.Sleep(20 * time.Second) // heeds nothing
				close(done)
			}
		}), fence.GuardConfig{Drain: time.Minute}, fencehttp.Config{MayClaim: fencehttp.Anyone, Linger: time.Second, Lost: 30 * time.Second})
		ctx, cancel := context.WithCancel(fence.NewContext(t.Context(), 5))
		go func() {
			<-begun
			cancel()
		}()
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://front/slow", nil)
		if resp, err := s.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			t.Error("it was answered")
		}
		if err := claim(t.Context(), s.client, "http://front", fencehttp.Secret{}, "r", 6); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
		default:
			t.Error("a greater token was let in while the upstream is at work for a smaller one")
		}
		<-done
	})
}
