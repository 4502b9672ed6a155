package protocol_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func TestInstant(t *testing.T) {
	if protocol.Never.Add(time.Second) != protocol.Never || protocol.Never.Add(-time.Second) != protocol.Never || protocol.Always.Add(time.Second) != protocol.Always {
		t.Error("never and always do not stay")
	}
	if i := protocol.Instant(1500); i.Add(500) != 2000 || i.Sub(500) != 1000 {
		t.Error("instants do not add up")
	}
	for i, text := range map[protocol.Instant]string{protocol.Never: "never", protocol.Always: "always", 1_500_000_000: "1.5s"} {
		if i.String() != text {
			t.Errorf("%d is printed as %s, want %s", int64(i), i, text)
		}
	}
}

func TestProven(t *testing.T) {
	now := protocol.Reading{Boot: 1000, Mono: 400}
	view := protocol.View{Active: true, LeaseEnd: 2000, Read: now}
	later := func(by protocol.Instant) protocol.Reading {
		return protocol.Reading{Boot: now.Boot + by, Mono: now.Mono + by}
	}
	if !view.Proven(now) || !view.Proven(later(999)) {
		t.Error("a lease that lasts is not proven")
	}
	if view.Proven(later(1000)) {
		t.Error("a lease is proven at its end")
	}
	view.LeaseEnd = protocol.Never
	slept, set := now, now
	slept.Boot += protocol.Instant(protocol.JumpTolerance) + 1
	set.Boot -= protocol.Instant(protocol.JumpTolerance) + 1
	if view.Proven(slept) || view.Proven(set) {
		t.Error("a lease is proven after a jump of the clock")
	}
	view.Active = false
	if view.Proven(now) {
		t.Error("a term that is not active is proven")
	}
}

func TestEffects(t *testing.T) {
	var fx protocol.Effects
	allocs := testing.AllocsPerRun(100, func() {
		fx.Reset()
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop})
		fx.Save(1, func(dst []byte) []byte { return append(dst, "one"...) })
		fx.Save(2, func(dst []byte) []byte { return append(dst, "two"...) })
		fx.Sends = append(fx.Sends, protocol.Send{To: "n1", After: 2})
		fx.Asks = append(fx.Asks, protocol.Ask{Number: 1, Op: protocol.Read})
	})
	if allocs != 0 {
		t.Errorf("filling effects again allocates %v times", allocs)
	}
	if string(fx.Saves[0].Data) != "one" || string(fx.Saves[1].Data) != "two" {
		t.Errorf("saves hold %q and %q", fx.Saves[0].Data, fx.Saves[1].Data)
	}
	if _ = append(fx.Saves[0].Data, '!'); string(fx.Saves[1].Data) != "two" {
		t.Error("one save can grow into the next")
	}
	fx.Reset()
	if len(fx.Orders)+len(fx.Saves)+len(fx.Sends)+len(fx.Asks) != 0 {
		t.Error("Reset does not empty the effects")
	}
}

// Every name is read back as the value that it names, and no other text is.
func TestNames(t *testing.T) {
	names[protocol.InputKind](t, 7)
	names[protocol.Verb](t, 12)
	names[protocol.OrderKind](t, 4)
	names[protocol.Op](t, 16)
	names[protocol.Status](t, 7)
	names[protocol.Role](t, 9)
}

func names[E interface {
	~uint8
	String() string
}](t *testing.T, want int) {
	t.Helper()
	known := 0
	for i := range 256 {
		text, err := json.Marshal(E(i))
		if err != nil {
			t.Fatal(err)
		}
		var e E
		if json.Unmarshal(text, &e) != nil {
			continue
		}
		known++
		if e != E(i) {
			t.Errorf("%T %d is written as %s and read as %d", e, i, text, e)
		}
	}
	if known != want {
		t.Errorf("%T: %d names, want %d", E(0), known, want)
	}
}
