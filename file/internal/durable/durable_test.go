package durable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/electd/elect/fence"
)

func must(t *testing.T, fsys FS, r Request) fence.Token {
	t.Helper()
	token, err := Next(fsys, r)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantCount(t *testing.T, got fence.Token, era, count uint64) {
	t.Helper()
	if got.Era() != era || got.Count() != count {
		t.Fatalf("token of era %d and count %d, want %d and %d", got.Era(), got.Count(), era, count)
	}
}

func disk() *crashFS { return newCrashFS(rand.New(rand.NewPCG(1, 2))) }

func TestCounts(t *testing.T) {
	d := disk()
	for i := range uint64(100) {
		wantCount(t, must(t, d, Request{Create: true}), 0, i+1)
	}
}

func TestFloor(t *testing.T) {
	d := disk()
	must(t, d, Request{Create: true})
	wantCount(t, must(t, d, Request{Floor: 50}), 0, 52) // 51 is in the other slot
	wantCount(t, must(t, d, Request{Floor: 50}), 0, 53)
}

func TestEra(t *testing.T) {
	d := disk()
	must(t, d, Request{Create: true})
	must(t, d, Request{})
	wantCount(t, must(t, d, Request{Era: 3}), 3, 1)
	wantCount(t, must(t, d, Request{Era: 3}), 3, 2)
	_, err := Next(d, Request{Era: 2})
	if e, ok := errors.AsType[*EraError](err); !ok || e.Stored != 3 || e.Configured != 2 {
		t.Fatalf("era 2 after 3: %v", err)
	}
	floor, err := fence.NewToken(4, 9)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Next(d, Request{Era: 3, Floor: floor}); err == nil {
		t.Fatal("era 3 with a floor in era 4 was accepted")
	}
	wantCount(t, must(t, d, Request{Era: 4, Floor: floor}), 4, 11) // 10 is in the other slot
}

func TestMissing(t *testing.T) {
	if _, err := Next(disk(), Request{}); !errors.Is(err, ErrMissing) {
		t.Fatalf("got %v, want ErrMissing", err)
	}
}

func TestExhausted(t *testing.T) {
	d := disk()
	must(t, d, Request{Create: true})
	wantCount(t, must(t, d, Request{Floor: fence.MaxCount - 2}), 0, fence.MaxCount)
	if _, err := Next(d, Request{}); !errors.Is(err, ErrExhausted) {
		t.Fatalf("got %v, want ErrExhausted", err)
	}
	wantCount(t, must(t, d, Request{Era: 1}), 1, 1)
}

// TestDamage changes one bit, in each byte of the file in turn, after a token
// was returned. The next one must be greater all the same.
func TestDamage(t *testing.T) {
	for parity := range 2 {
		d := disk()
		last := must(t, d, Request{Create: true})
		for range parity {
			last = must(t, d, Request{})
		}
		whole := d.cache[Name].cache
		for at := range whole {
			d.cache[Name].cache = bytes.Clone(whole)
			d.cache[Name].cache[at] ^= 1 << (at % 8)
			token, err := Next(d, Request{})
			if err != nil {
				t.Fatalf("byte %d: %v", at, err)
			}
			if token <= last {
				t.Fatalf("byte %d: token %v after %v", at, token, last)
			}
		}
	}
}

func TestBothDamaged(t *testing.T) {
	d := disk()
	must(t, d, Request{Create: true})
	for i := range slots {
		d.cache[Name].cache[offset(i)+16] ^= 1
	}
	if _, err := Next(d, Request{Create: true}); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v, want ErrCorrupt", err)
	}
	wantCount(t, must(t, d, Request{Era: 1, Replace: true}), 1, 1)
}

func TestTruncated(t *testing.T) {
	d := disk()
	last := must(t, d, Request{Create: true})
	for _, size := range []int{slotGap + slotSize - 1, slotGap, slotSize} {
		d.cache[Name].cache = d.cache[Name].cache[:size]
		token, err := Next(d, Request{})
		if err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		if token <= last {
			t.Fatalf("size %d: token %v after %v", size, token, last)
		}
		last = token
	}
	d.cache[Name].cache = nil
	if _, err := Next(d, Request{}); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("empty: got %v, want ErrCorrupt", err)
	}
}

func TestUnknownVersion(t *testing.T) {
	d := disk()
	must(t, d, Request{Create: true})
	b := d.cache[Name].cache
	b[8] = version + 1
	copy(b[sumAt:], sumBytes(b[:sumAt]))
	if _, err := Next(d, Request{Replace: true}); !errors.Is(err, ErrVersion) {
		t.Fatalf("got %v, want ErrVersion", err)
	}
}

func sumBytes(b []byte) []byte {
	var out [8]byte
	for i := range out {
		out[i] = byte(sum(b) >> (8 * i))
	}
	return out[:]
}

// TestCrashAtEveryOperation kills the process, or cuts the power, at each
// operation of the third victory, and of the first, and goes on.
func TestCrashAtEveryOperation(t *testing.T) {
	for before := range 4 {
		for _, power := range []bool{false, true} {
			for die := 1; ; die++ {
				died := false
				for seed := range uint64(64) {
					d := newCrashFS(rand.New(rand.NewPCG(seed, uint64(die))))
					var last fence.Token
					for range before {
						last = must(t, d, Request{Create: true})
					}
					d.ops, d.die = 0, die
					if token, err := Next(d, Request{Create: before == 0}); err == nil {
						last = token
					} else if !errors.Is(err, errKilled) {
						t.Fatal(err)
					} else {
						died = true
					}
					d.restart(power)
					// A counter that had returned nothing may be missing.
					token, err := Next(d, Request{Create: last == 0})
					if err != nil {
						t.Fatalf("%d before, killed at %d, power %v, seed %d: %v", before, die, power, seed, err)
					}
					if token <= last {
						t.Fatalf("%d before, killed at %d, power %v, seed %d: token %v after %v", before, die, power, seed, token, last)
					}
				}
				if !died {
					if die < 6 {
						t.Fatalf("only %d operations were killed", die-1)
					}
					break
				}
			}
		}
	}
}

// histories runs random histories of victories, kills, power cuts and disk
// errors, and returns how many tokens were returned, in how many of the
// histories the counter was given up as damaged, and the first token that was
// not greater than one returned before.
func histories(seed uint64, rounds int, liar bool) (tokens, damaged int, err error) {
	for round := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		d := newCrashFS(r)
		d.liar = liar
		var last fence.Token
		var era uint64
		for step := range 60 {
			d.die, d.fault = 0, 0
			switch r.IntN(4) {
			case 0:
				d.die = d.ops + 1 + r.IntN(8)
			case 1:
				d.fault = 2 + r.IntN(6)
			}
			if r.IntN(20) == 0 {
				era++
			}
			token, nextErr := Next(d, Request{Era: era, Create: last == 0})
			switch {
			case nextErr == nil:
				tokens++
				if token <= last {
					return tokens, damaged, fmt.Errorf("seed %d, round %d, step %d: token %v after %v", seed, round, step, token, last)
				}
				last = token
			case errors.Is(nextErr, ErrCorrupt):
				damaged++
			case errors.Is(nextErr, ErrMissing):
				return tokens, damaged, fmt.Errorf("seed %d, round %d, step %d: the counter is gone after token %v", seed, round, step, last)
			}
			if errors.Is(nextErr, ErrCorrupt) {
				break
			}
			if d.die != 0 || r.IntN(8) == 0 {
				d.restart(r.IntN(2) == 0)
			}
		}
	}
	return tokens, damaged, nil
}

func TestNoTokenTwice(t *testing.T) {
	const rounds = 3000
	tokens, damaged, err := histories(rand.Uint64(), rounds, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d histories, %d tokens, %d counters given up", rounds, tokens, damaged)
	if tokens < 10*rounds {
		t.Fatalf("%d tokens in %d histories: they end too early to prove anything", tokens, rounds)
	}
	if damaged > rounds/20 {
		t.Fatalf("%d of %d counters were given up", damaged, rounds)
	}
}

// TestTheTestCanFail runs the same histories on a disk that does not write what
// it was told to.
func TestTheTestCanFail(t *testing.T) {
	if _, _, err := histories(1, 200, true); err == nil {
		t.Fatal("a disk that ignores Sync went unnoticed")
	}
}

func FuzzHistories(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if _, _, err := histories(seed, 20, false); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzSlot(f *testing.F) {
	for i := range slots {
		b := encode(i, value{3, 42, i == 0})
		f.Add(i, b[:])
	}
	f.Add(0, []byte(magic))
	f.Fuzz(func(t *testing.T, slot int, b []byte) {
		slot &= 1
		v, err := decode(slot, b)
		if err != nil {
			if !errors.Is(err, errSlot) && !errors.Is(err, ErrVersion) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if again := encode(slot, v); !bytes.Equal(again[:], b) {
			t.Fatalf("%x was read as %v, which is written %x", b, v, again)
		}
	})
}
