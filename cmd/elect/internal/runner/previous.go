package runner

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

// predecessor is a leader other than this candidate.
type predecessor struct {
	id    string
	token elect.Token
	off   bool // its machine was switched off, or is known not to need that
}

// previous knows the leaders that may still do something: the last one that was seen, and those before it of which it is
// not known that a later leader has fenced them. A leader whose own fence has failed has given leadership back, and is
// the last one nevertheless; the one that has to be fenced is before it.
//
// So a leader that has fenced publishes the tokens of those whom it, or a leader before it, has fenced: [fencedKey]. Who
// misses that fences once more. Its methods may be called by any number of goroutines.
type previous struct {
	mu     sync.Mutex
	all    []predecessor // the oldest first
	fenced []elect.Token // known to be fenced; at most maxFenced

	keeping sync.Mutex // held while they are written down
}

const (
	// fencedKey is the key of a leader's metadata with tokens, separated by commas.
	fencedKey = "fenced"

	maxFenced = 16

	// maxPrevious is how many are kept. Each is another candidate.
	maxPrevious = 64
)

// saw takes a leader, and returns whether something has changed. single is that no earlier one can be left when this one
// leads.
func (p *previous) saw(l *elect.Leader, single bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := slices.Clone(p.all)
	last := predecessor{id: l.ID, token: l.Token}
	if n := len(p.all); n > 0 && p.all[n-1].id == l.ID && p.all[n-1].token == l.Token {
		last = p.all[n-1]
	}
	for text := range strings.SplitSeq(l.Metadata[fencedKey], ",") {
		var token elect.Token
		if token.UnmarshalText([]byte(text)) == nil {
			p.isFenced(token)
		}
	}
	p.all = slices.DeleteFunc(p.all, func(e predecessor) bool {
		return single || e.off || e.id == l.ID || slices.Contains(p.fenced, e.token)
	})
	p.all = append(p.all, last)
	p.all = p.all[max(0, len(p.all)-maxPrevious):]
	return !slices.Equal(was, p.all)
}

func (p *previous) isFenced(token elect.Token) {
	if token == 0 || slices.Contains(p.fenced, token) {
		return
	}
	p.fenced = append(p.fenced, token)
	p.fenced = p.fenced[max(0, len(p.fenced)-maxFenced):]
}

// leaders are those that have to be fenced, the oldest first; nil if there was none.
func (p *previous) leaders() []predecessor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// isOff notes that the machine of a leader is off.
func (p *previous) isOff(of predecessor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.all {
		p.all[i].off = p.all[i].off || p.all[i].token == of.token
	}
}

// areFenced notes that this leader has fenced those before it. The last one stays: the hooks are told of it.
func (p *previous) areFenced(all []predecessor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, of := range all {
		p.isFenced(of.token)
		if i < len(all)-1 {
			p.all = slices.DeleteFunc(p.all, func(e predecessor) bool { return e.token == of.token })
		}
	}
}

// claim is the value of fencedKey.
func (p *previous) claim() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tokens []string
	for _, t := range p.fenced {
		tokens = append(tokens, t.String())
	}
	return strings.Join(tokens, ",")
}

// String is what is kept over restarts: a line for each, with id, token, and "isolated" if it is off.
func (p *previous) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, of := range p.all {
		id := of.id
		if driver.CheckID(id) != nil {
			id = strconv.Quote(id) // of another program; without a line break
		}
		fmt.Fprintf(&b, "%s %v", id, of.token)
		if of.off {
			b.WriteString(" isolated")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parse reads what String has written. A line that it does not know is left out.
func (p *previous) parse(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(text) {
		var of predecessor
		line, of.off = strings.CutSuffix(strings.TrimSpace(line), " isolated")
		i := strings.LastIndexByte(line, ' ')
		if i < 1 || of.token.UnmarshalText([]byte(line[i+1:])) != nil {
			continue
		}
		of.id = line[:i]
		if id, err := strconv.Unquote(of.id); err == nil {
			of.id = id
		}
		p.all = append(p.all, of)
	}
}

// watchPrevious keeps the leaders that are seen, until ctx ends.
func (r *run) watchPrevious(ctx context.Context) {
	single := r.election.Limits().Lease == 0 // the kernel frees the lock when all of the earlier ones is dead
	for state, err := range r.election.Watch(ctx) {
		l := state.Leader
		if err == nil && l != nil && l.ID != r.cfg.ID && r.steps.previous.saw(l, single) {
			r.keepPrevious()
		}
	}
}

// leaderFile is the name of the file with the previous leaders.
func (r *run) leaderFile() string { return r.cfg.Name + ".leader" }

func (r *run) keepPrevious() {
	r.steps.previous.keeping.Lock()
	defer r.steps.previous.keeping.Unlock()
	if err := r.cfg.State.Save(r.leaderFile(), []byte(r.steps.previous.String())); err != nil {
		r.log().Warn("after a restart it is not known who led before", "error", err)
	}
}
