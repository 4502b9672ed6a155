package protocol_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The twin of Claim: d·(1−ρ)/(1+ρ) in rationals.
func claim(r protocol.Drift, d time.Duration) time.Duration {
	x := new(big.Rat).SetFrac64(1_000_000-r.PPM, 1_000_000+r.PPM)
	x.Mul(x, new(big.Rat).SetInt64(int64(d)))
	return time.Duration(new(big.Int).Quo(x.Num(), x.Denom()).Int64()) - r.Guard
}

func TestClaim(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		r := protocol.Drift{PPM: rnd.Int64N(protocol.MaxPPM + 1), Guard: time.Duration(rnd.Int64N(int64(time.Second)))}
		d := time.Duration(rnd.Int64() >> rnd.IntN(63))
		if got, want := r.Claim(d), claim(r, d); got != want {
			t.Fatalf("%+v: the claim on %d is %d, want %d", r, d, got, want)
		}
	}
}

// A claim on the slowest clock ends before a promise on the fastest, in true time, even if the
// request took no time.
func TestClaimEndsBeforeThePromise(t *testing.T) {
	for _, ppm := range []int64{0, 1, 100, 50_000, protocol.MaxPPM} {
		r := protocol.Drift{PPM: ppm}
		for _, d := range []time.Duration{1, time.Millisecond, time.Second, 24 * time.Hour} {
			slowest, fastest := big.NewRat(1_000_000-ppm, 1_000_000), big.NewRat(1_000_000+ppm, 1_000_000)
			claimed := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(r.Claim(d))), slowest)
			promised := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(d)), fastest)
			if claimed.Cmp(promised) > 0 {
				t.Errorf("ρ = %d ppm: a claim on %v ends %s ns after the request, the promise after %s", ppm, d, claimed.FloatString(3), promised.FloatString(3))
			}
		}
	}
}

func TestDriftValidate(t *testing.T) {
	for _, r := range []protocol.Drift{{PPM: -1}, {PPM: protocol.MaxPPM + 1}, {Guard: -1}} {
		if err := r.Validate(); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
	if err := protocol.DefaultDrift().Validate(); err != nil {
		t.Error(err)
	}
}

func ExampleDrift_Claim() {
	fmt.Println(protocol.DefaultDrift().Claim(time.Second))
	// Output: 899.761904ms
}
