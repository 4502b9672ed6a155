package fencehttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/electd/elect/fence"
)

// A request that is made within work of another guard has the context of that work, which a
// greater token ends with a StaleError as its cause. net/http returns the cause. It is no
// refusal: the request may have been applied.
func TestRequestWithinWorkThatWasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		applied := make(chan struct{})
		p := newPipes()
		p.serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(applied)
			<-r.Context().Done()
		}))
		ctx, end := context.WithCancelCause(fence.NewContext(t.Context(), 5))
		go func() {
			<-applied
			end(&fence.StaleError{Shown: 5, Highest: 6})
		}()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://orders/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.client(t).Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
			t.Errorf("got %v; want an unknown outcome, and no refusal", err)
		}
	})
}
