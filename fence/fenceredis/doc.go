// Package fenceredis guards Redis by fencing tokens.
//
// It is safe for concurrent use. A refusal matches fence.ErrStale, and nothing of what
// was refused is applied.
package fenceredis
