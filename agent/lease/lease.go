// Package lease reads the lease page of a leader: until when its leadership is proven.
//
// A command of elect run finds the path of the page in ELECT_LEASE. So does one that package supervise starts with
// Command.LeasePage. Any process of the machine can read it, in any language:
//
//	bytes   content; numbers are little-endian
//	 0–7    "electpg1": the last byte is the version
//	 8–15   sequence, unsigned: odd while the page is written
//	16–23   the leader's fencing token, unsigned
//	24–31   until, signed: nanoseconds of CLOCK_BOOTTIME; 0: leadership is over
//	32–63   zero; ignore them
//
// Map the file and load until, which is aligned, with one instruction; the sequence is of no concern then. A reader that
// copies bytes, as by pread(2), reads the sequence, then until, then the sequence again, and starts anew if it has
// changed or is odd; one that stays odd for a second proves nothing. Read CLOCK_BOOTTIME afterwards. Leadership is proven
// if it is less than until. A file that is gone, or has another length, proves nothing. A page is of one leader: the
// next one has another file.
//
// # What it proves
//
// The supervisor of the leader writes the page: the end of the lease after each renewal, and 0 when the command and all
// that it started are dead, before leadership is released. So what the page says holds by itself, also when they are all
// frozen or dead. Without a lease, as in a file: election, it is valid for 0.4 s, and is written every 50 ms for as long
// as the lock is held. If both supervisors of such a leader are killed, readers may believe in it for the rest of that
// time.
//
// A check proves leadership at one instant. A process that is frozen after it, and before what it does, acts late all
// the same: fence what can check tokens (package fence), and guard the network of the rest.
package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/leasepage"
)

// Env is the variable with the path of the page.
const Env = leasepage.Env

// ErrOver is what Check returns when leadership is not proven: it is over, or its lease has ended, or the page is gone.
// A lease that is renewed late is proven again.
var ErrOver = errors.New("leadership is not proven")

// Check returns nil if leadership is proven now. It makes one system call, to read the clock.
func (p *Page) Check() error {
	if d := p.Remaining(); d <= 0 {
		return fmt.Errorf("%w: the lease of token %v has ended, or leadership is over", ErrOver, p.token)
	}
	return nil
}

// Token is the leader's fencing token.
func (p *Page) Token() fence.Token { return p.token }

// Remaining is how long leadership is proven from now on without another renewal; 0 if it is not.
func (p *Page) Remaining() time.Duration { return max(p.remaining(), 0) }
