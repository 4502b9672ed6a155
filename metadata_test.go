package elect_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// A term's metadata can be changed while it lasts, and only then. The next term begins
// with that of the configuration.
func TestSetMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		first := map[string]string{"address": "10.0.0.1:8080"}
		e, link := stand(t, store, "a", elect.Config{Metadata: first, Require: []elect.Ability{elect.AbilityMetadata}})
		shown := func(want map[string]string) {
			t.Helper()
			if l, err := e.Leader(t.Context()); err != nil || !maps.Equal(l.Metadata, want) {
				t.Errorf("shown is %v, %v; want %v", l.Metadata, err, want)
			}
		}
		term := win(t, e)
		shown(first)
		changed := map[string]string{"address": "10.0.0.1:9090"}
		if err := term.SetMetadata(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		changed["address"] = "the caller's own"
		shown(map[string]string{"address": "10.0.0.1:9090"})
		if err := term.SetMetadata(t.Context(), map[string]string{"k": strings.Repeat("v", driver.MaxMetadata)}); err == nil {
			t.Error("more than MaxMetadata was taken")
		}
		link.LoseAnswers(math.MaxInt) // not of one request only, which may be a watcher's
		if err := term.SetMetadata(t.Context(), nil); !errors.Is(err, elect.ErrUnknownOutcome) {
			t.Errorf("a change whose answer was lost: %v; want ErrUnknownOutcome", err)
		}
		link.LoseAnswers(0)
		shown(nil)
		if err := term.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := term.SetMetadata(t.Context(), first); !errors.Is(err, elect.ErrLost) {
			t.Errorf("after the end of the term: %v; want a LostError", err)
		}
		win(t, e)
		shown(first)
	})
}

// A loss that the change itself notices ends the term.
func TestSetMetadataNoticesLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		e, _ := stand(t, store, "a", elect.Config{})
		term := win(t, e)
		store.Recreate()
		if err := term.SetMetadata(t.Context(), nil); !errors.Is(err, elect.ErrLost) {
			t.Errorf("%v; want a LostError", err)
		}
		<-term.Context().Done()
	})
}

// A back end without the ability says so.
func TestSetMetadataUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.wins(newFakeMandate(1, lease))
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		term := win(t, e)
		if err := term.SetMetadata(context.Background(), nil); !errors.Is(err, elect.ErrUnsupported) {
			t.Errorf("%v; want ErrUnsupported", err)
		}
		if err := term.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
