package register_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
)

// put has someone write a wish into the record by hand.
func (k *kept) wish(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text = strings.TrimSuffix(k.text, "}") + `,"wish":` + text + "}"
	k.durable = k.text
}

func resign(t *testing.T, p electtest.Participant, within time.Duration, m driver.Mandate) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return p.Elector.(driver.Resigner).Resign(ctx, m.Token())
}

// leads has a participant win.
func leads(t *testing.T, p electtest.Participant) driver.Mandate {
	t.Helper()
	m, err := campaign(t, p, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWish: a leader obeys an operator at its next renewal, at the latest, and says so while its work
// has not returned. Its lease goes on until then. Lost answers on both sides change nothing.
func TestWish(t *testing.T) {
	for _, lost := range []int{0, 1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			k := &kept{incarnation: "1"}
			a, o := open(t, k, 0, "e", "a"), open(t, k, 0, "e", "o")
			defer closed(t, a)
			defer closed(t, o)
			m := leads(t, a)
			o.Lose(lost)
			if lost < 3 {
				a.Lose(lost)
			}
			begun := time.Now()
			if err := resign(t, o, time.Minute, m); err != nil {
				t.Errorf("%d answers lost: %v", lost, err)
			}
			if took := time.Since(begun); lost == 0 && took > 500*time.Millisecond {
				t.Errorf("the leader has answered after %v; want a quarter of its lease of 1s, and some requests", took)
			}
			if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) {
				t.Errorf("it has ended with %v; want ErrResigned", err)
			}
			time.Sleep(5 * time.Second)
			if left, _ := m.Remaining(); left <= 0 {
				t.Error("the lease ends before the work has returned")
			}
			if err := resign(t, o, time.Second, m); err != nil {
				t.Errorf("asked again: %v", err)
			}
			if err := m.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if err := resign(t, o, time.Second, m); !errors.Is(err, driver.ErrNoLeader) {
				t.Errorf("asked after the release: %v; want ErrNoLeader", err)
			}
			n := leads(t, a)
			time.Sleep(5 * time.Second)
			if err := n.Check(); err != nil {
				t.Errorf("the wish has ended a later term: %v", err)
			}
		})
	}
}

// TestNoWish: what is no wish, and a wish for another tenure, end no term and stop no renewal.
func TestNoWish(t *testing.T) {
	for _, text := range []string{
		"null", "0", "{}", `"resign"`, `{"verb":"resign"}`, `{"verb":"pause","count":%d}`, `{"verb":"resign","count":%d,"to":"b"}`,
		`{"verb":"resign","count":-1}`, `{"verb":"resign","count":1000}`, `{"verb":"resign","count":%d,"heard":true}`,
		`"` + strings.Repeat("<", 20<<10) + `"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &kept{incarnation: "1"}
			a := open(t, k, 0, "e", "a")
			defer closed(t, a)
			m := leads(t, a)
			if strings.Contains(text, "%d") {
				text = fmt.Sprintf(text, uint64(m.Token()))
			}
			k.wish(text)
			time.Sleep(10 * time.Second)
			if err := m.Check(); err != nil {
				t.Errorf("%.60s: %v; want a leader that leads on", text, err)
			}
			if strings.Contains(k.get().Text, "wish") {
				t.Errorf("%.60s is still there", text)
			}
		})
	}
}

// TestWishForTheDead: a dead leader's record gets one wish, however often an operator asks, so the
// others wait for at most one lease more.
func TestWishForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a, b, o := open(t, k, 0, "e", "a"), open(t, k, 0, "e", "b"), open(t, k, 0, "e", "o")
		defer closed(t, a)
		defer closed(t, b)
		defer closed(t, o)
		m := leads(t, a)
		a.Cut(true)
		begun := time.Now()
		won := make(chan driver.Mandate, 1)
		go func() {
			n, _ := campaign(t, b, time.Minute)
			won <- n
		}()
		time.Sleep(500 * time.Millisecond)
		if err := resign(t, o, 300*time.Millisecond, m); !errors.Is(err, driver.ErrUnknownOutcome) {
			t.Errorf("a dead leader: %v; want ErrUnknownOutcome", err)
		}
		was := k.get().Text
		if err := resign(t, o, 300*time.Millisecond, m); !errors.Is(err, driver.ErrUnknownOutcome) {
			t.Errorf("a dead leader: %v; want ErrUnknownOutcome", err)
		}
		if is := k.get().Text; is != was {
			t.Errorf("the record is written again:\n%s\n%s", was, is)
		}
		if err := resign(t, o, time.Minute, m); err != nil {
			t.Errorf("another one leads: %v", err)
		}
		if n := <-won; n == nil || time.Since(begun) > 3*time.Second {
			t.Errorf("the next one leads after %v", time.Since(begun))
		} else if err := n.Check(); err != nil {
			t.Errorf("the wish has ended a later term: %v", err)
		}
		a.Cut(false)
	})
}
