package protocol

import (
	"fmt"
	"slices"
	"time"
)

// Coder carries out one description of an encoding in both directions: a Coder of [Appending]
// appends what the variables hold, and one of [Loading] reads it into them. The encoding is that of
// the Append functions.
type Coder struct {
	dst     []byte
	src     Decoder
	loading bool
}

// Appending returns a Coder that appends to dst.
func Appending(dst []byte) Coder { return Coder{dst: dst} }

// Loading returns a Coder that reads src, which it does not change. After the first error it reads
// zeros.
func Loading(src []byte) Coder { return Coder{src: Decoder{src: src}, loading: true} }

// Loads reports whether the Coder reads.
func (c *Coder) Loads() bool { return c.loading }

// Appended returns dst with what was appended.
func (c *Coder) Appended() []byte { return c.dst }

// Done returns the first error, or an error if not all of the input was read. It begins with what,
// such as "raft: state".
func (c *Coder) Done(what string) error {
	if err := c.src.Done(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Fail sets the error, with the offset, unless one is set already. A Coder that appends cannot fail:
// what it is given is valid.
func (c *Coder) Fail(err error) {
	if c.loading {
		c.src.Fail(err)
	}
}

// Uints codes integers.
func (c *Coder) Uints(all ...*uint64) {
	if c.loading {
		for _, v := range all {
			*v = c.src.Uint()
		}
		return
	}
	dst := c.dst
	for _, v := range all {
		dst = AppendUint(dst, *v)
	}
	c.dst = dst
}

// Instants codes instants.
func (c *Coder) Instants(all ...*Instant) {
	if c.loading {
		for _, i := range all {
			*i = c.src.Instant()
		}
		return
	}
	dst := c.dst
	for _, i := range all {
		dst = AppendInstant(dst, *i)
	}
	c.dst = dst
}

// Durations codes durations.
func (c *Coder) Durations(all ...*time.Duration) {
	for _, d := range all {
		if c.loading {
			*d = c.src.Duration()
		} else {
			c.dst = AppendDuration(c.dst, *d)
		}
	}
}

// Bools codes one byte for each.
func (c *Coder) Bools(all ...*bool) {
	for _, b := range all {
		if c.loading {
			*b = c.src.Bool()
		} else {
			c.dst = AppendBool(c.dst, *b)
		}
	}
}

// Has codes one byte, whether something follows, and returns what it says.
func (c *Coder) Has(follows bool) bool {
	c.Bools(&follows)
	return follows
}

// Voter codes a voter.
func (c *Coder) Voter(v *Voter) {
	if c.loading {
		*v = c.src.Voter()
	} else {
		c.dst = AppendVoter(c.dst, *v)
	}
}

// Reading codes a reading.
func (c *Coder) Reading(r *Reading) { c.Instants(&r.Boot, &r.Mono) }

// Membership codes a membership; nil is allowed.
func (c *Coder) Membership(m **Membership) {
	if c.loading {
		*m = c.src.Membership()
	} else {
		c.dst = AppendMembership(c.dst, *m)
	}
}

// Nonce codes a nonce.
func (c *Coder) Nonce(n *Nonce) { c.Uints(&n[0], &n[1]) }

// Len codes the number of items that follow, each at least least bytes long. have is how many there
// are to append; what it returns is how many follow.
func (c *Coder) Len(have, least int) int {
	if c.loading {
		return c.src.Len(least)
	}
	c.dst = AppendUint(c.dst, uint64(have))
	return have
}

// Byte codes a byte.
func (c *Coder) Byte(b *byte) {
	if !c.loading {
		c.dst = append(c.dst, *b)
		return
	}
	*b = 0
	if next := c.src.take(1); next != nil {
		*b = next[0]
	}
}

// Format codes the number of a format, as one byte, and fails to load another one. The error names
// what has the format, such as "a ballot".
func (c *Coder) Format(format byte, what string) {
	got := format
	if c.Byte(&got); got != format {
		c.src.err = fmt.Errorf("the first of %d bytes is not %d; want %s of this version", len(c.src.src), format, what)
	}
}

// Role codes a role, which is one of roles, Down or Halted, and of one that has halted the fault. It
// reports whether the rest of a state follows.
func (c *Coder) Role(role *Role, fault *string, roles ...Role) bool {
	c.Byte((*byte)(role))
	switch *role {
	case Down:
		return false
	case Halted:
		Strings(c, fault)
		return false
	}
	if c.loading && !slices.Contains(roles, *role) {
		c.Fail(fmt.Errorf("the role %v; want a role of this protocol", *role))
		return false
	}
	return true
}

// Strings codes strings.
func Strings[S ~string](c *Coder, all ...*S) {
	for _, s := range all {
		if c.loading {
			*s = S(c.src.String())
		} else {
			c.dst = AppendString(c.dst, *s)
		}
	}
}

// Small codes a number of a smaller type as an integer, and fails to load one that is not from least
// to most. The error has the number after what, such as "phase".
func Small[N ~int | ~uint8 | ~uint16](c *Coder, n *N, what string, least, most N) {
	v := uint64(*n)
	c.Uints(&v)
	if !c.loading {
		return
	}
	if *n = least; int64(v) < int64(least) || int64(v) > int64(most) {
		c.Fail(fmt.Errorf("%s %d; want %d to %d", what, int64(v), least, most))
		return
	}
	*n = N(v)
}
