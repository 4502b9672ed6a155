//go:build linux

package judge

import "sync"

// Violation is a promise that was broken.
type Violation struct {
	Check string `json:"check"`        // one of those below
	At    int64  `json:"at,omitempty"` // where to look; 0: no particular time
	Node  int    `json:"node"`         // or NoNode
	Text  string `json:"text"`
}

// The checks.
const (
	CheckOverlap  = "overlap"  // tenures are disjoint
	CheckToken    = "token"    // tokens rise from tenure to tenure
	CheckLease    = "lease"    // leases, as flight records have them, are disjoint
	CheckTerm     = "term"     // a term, and a token, is one node's
	CheckMutex    = "mutex"    // tenures are a history of a mutex, by porcupine
	CheckFenced   = "fenced"   // and of one whose tokens rise, by porcupine
	CheckRegister = "register" // the guarded register is linearizable, by porcupine
	CheckTwin     = "twin"     // and so is its unguarded twin
	CheckStale    = "stale"    // no write with an overtaken token was accepted
	CheckHighest  = "highest"  // the highest token that the register has seen never falls
	CheckStream   = "stream"   // and so is the stream of sequences
	CheckSequence = "sequence" // sequences that were accepted rise, each once, and so do those that one leader calls
	CheckWatch    = "watch"    // watchers see the leaders, and no token that falls
	CheckLive     = "live"     // where a majority is connected and well there is a leader in time
	CheckMemory   = "memory"   // a node knows after a restart what it has made durable
	CheckTrace    = "trace"    // flight records are what the machines do
	CheckGrowth   = "growth"   // processes do not grow
	CheckMaterial = "material" // the promised evidence exists (Event.Material)
)

// Kept is how many violations of one check a report lists. All are counted.
const Kept = 50

// findings collects violations. Any number of goroutines may use it.
type findings struct {
	mu     sync.Mutex
	all    []Violation
	counts map[string]int
}

func (f *findings) add(v Violation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	if f.counts[v.Check]++; f.counts[v.Check] <= Kept {
		f.all = append(f.all, v)
	}
}
