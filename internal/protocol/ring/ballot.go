package ring

import "github.com/electd/elect/internal/protocol/internal/epoch"

// Ballot is a participant's durable state: Epoch is the highest that it has led in
// or heard of, and Incarnation one higher with each boot. On an empty disk the
// first is random, of up to 48 bits, not 1.
type Ballot = epoch.Ballot

// DecodeBallot reads what was saved, and nothing else: a ballot that it accepts encodes to the same
// bytes. The caller checks for corruption.
func DecodeBallot(data []byte) (Ballot, error) { return epoch.Decode(Name, data) }
