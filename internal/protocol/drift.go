package protocol

import (
	"fmt"
	"time"
)

// Drift is the assumption about clocks on which leases depend: the rate of every clock stays within
// 1 ± PPM·10⁻⁶ of true time. Wall clocks are not used.
type Drift struct {
	// PPM is ρ in parts per million, 0 to 200,000. The default, for 0 in a
	// machine's configuration, is DefaultDrift.
	PPM int64 `json:"ppm"`
	// Guard is subtracted from every claim in addition: it covers the granularity of clocks and of
	// their reading.
	Guard time.Duration `json:"guard"`
}

// DefaultDrift returns ρ = 5 % and a guard of 5 ms.
func DefaultDrift() Drift { return Drift{PPM: 50_000, Guard: 5 * time.Millisecond} }

// MaxPPM is the greatest ρ allowed, in parts per million.
const MaxPPM = 200_000

// Claim is the longest time that a holder may claim of a promise of d that is measured by another
// clock: d·(1−ρ)/(1+ρ) − guard, rounded down; negative if nothing is left.
//
// Proof: in true time, the claim ends by send + claim/(1−ρ), the promise not before receipt +
// d/(1+ρ), and the receipt is not before the send.
func (r Drift) Claim(d time.Duration) time.Duration {
	const million = 1_000_000
	// d/million and the rest apart, so that no product overflows.
	num, den := million-r.PPM, million+r.PPM
	whole, rest := int64(d)/den, int64(d)%den
	return time.Duration(whole*num+rest*num/den) - r.Guard
}

// Rate is how much faster a clock runs than another one, in parts per million: the true value lies
// between Low and High. Over is the time in which it was measured; if it is 0, the rate is not
// known.
type Rate struct {
	Low  int64         `json:"low_ppm"`
	High int64         `json:"high_ppm"`
	Over time.Duration `json:"over_ns"`
}

// String formats the rate, such as "+39.9 % to +40.2 %".
func (r Rate) String() string {
	return fmt.Sprintf("%+.1f %% to %+.1f %%", float64(r.Low)/1e4, float64(r.High)/1e4)
}

// Validate returns an error if the assumption is invalid.
func (r Drift) Validate() error {
	switch {
	case r.PPM < 0 || r.PPM > MaxPPM:
		return fmt.Errorf("drift: %d ppm; want 0 to %d", r.PPM, MaxPPM)
	case r.Guard < 0:
		return fmt.Errorf("drift: a guard of %v; want 0 or more", r.Guard)
	}
	return nil
}
