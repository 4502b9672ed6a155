package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/electd/elect/internal/mutation"
)

// ballots is the file of the two slots. One goroutine at a time uses it.
type ballots struct {
	f      file
	newest int    // the slot that has the newest durable ballot
	number uint64 // the greatest ever used
	// last is the newest durable slot as written; empty if there is none. other is memory for the next one.
	last, other []byte
}

// openBallots reads the file. It returns the newest ballot, nil if there is none, and warnings about the file. voted
// means that there must be a ballot.
func openBallots(f file, path string, voted bool) (b *ballots, data []byte, warnings []string, err error) {
	// What an earlier process wrote and did not sync becomes durable now, before anything depends on it.
	if err := f.Sync(); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: ballot: %w", path, err)
	}
	f.Forget()
	raw := make([]byte, 2*SlotSize)
	n, err := f.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, nil, fmt.Errorf("%s: ballot: after %d bytes: %w", path, n, err)
	}
	b = &ballots{f: f, newest: -1, last: make([]byte, 0, SlotSize), other: make([]byte, 0, SlotSize)}
	var slots [2]slot
	var wrong [2]error
	for i := range slots {
		slots[i], wrong[i] = decodeSlot(raw[i*SlotSize : (i+1)*SlotSize])
		if errors.Is(wrong[i], errFormat) {
			return nil, nil, nil, refused(path, "ballot: %v", wrong[i])
		}
		if wrong[i] == nil && slots[i].number > b.number {
			b.newest, b.number = i, slots[i].number
		}
	}
	if b.newest < 0 {
		if voted {
			return nil, nil, nil, refused(path, "its votes are lost: both copies of the ballot are damaged (first: %v; second: %v). %s", wrong[0], wrong[1], Remedy)
		}
		return b, nil, nil, nil
	}
	newest, older := slots[b.newest], slots[1-b.newest]
	switch w := wrong[1-b.newest]; {
	case w != nil && voted:
		warnings = append(warnings, fmt.Sprintf("%s: one of the two copies of the ballot is damaged: %v. The other one, number %d, counts. "+
			"A write that was cut short does that, and then nothing is lost; a disk that decays does it too, and then the newest vote may be", path, w, newest.number))
	case w == nil && older.number == newest.number && !bytes.Equal(older.data, newest.data):
		return nil, nil, nil, refused(path, "its votes are uncertain: the two copies of the ballot have the same number, %d, and differ. %s", newest.number, Remedy)
	}
	if n < len(raw) { // the slots have their space on the disk again
		_, err := f.WriteAt(raw[n:], int64(n))
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: ballot: %w", path, err)
		}
	}
	b.last = appendSlot(b.last, newest)
	return b, bytes.Clone(newest.data), warnings, nil
}

// Remedy says what to do if a voter's memory is lost, for people.
const Remedy = "A voter that has forgotten its votes could help to elect a second leader, so it stays out; the others go on while they are a majority. " +
	"Want the directory as it was, and never a backup of it, which has forgotten votes too and may vote twice. " +
	"Without it: empty the directory, start this node with join=true, and run elect member replace with its id; " +
	"where no majority is left, begin anew with all: " +
	"stop all voters and observers, empty their directories, and start them with a higher era; where nobody ever led, the same era will do"

// createBallots writes zeros where the slots will be, so that they have their space on the disk.
func createBallots(at folder) (file, error) {
	f, err := at.Create(ballotName)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(make([]byte, 2*SlotSize), 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// save writes the slot that does not have the newest ballot.
func (b *ballots) save(data []byte) error {
	to := 0
	if b.newest >= 0 {
		to = 1 - b.newest
	}
	b.number++ // also after a failed attempt: no two ballots share a number
	b.other = appendSlot(b.other[:0], slot{b.number, data})
	if err := b.write(to, b.other); err != nil {
		return err
	}
	b.newest = to
	b.last, b.other = b.other, b.last
	return nil
}

// mirror writes the newest ballot to the other slot too.
func (b *ballots) mirror() error {
	if b.newest < 0 {
		return nil
	}
	return b.write(1-b.newest, b.last)
}

func (b *ballots) write(to int, text []byte) error {
	if _, err := b.f.WriteAt(text, int64(to)*SlotSize); err != nil {
		return err
	}
	if mutation.Is(mutation.VoteNotSynced) && b.newest >= 0 { // the first one is written correctly
		return nil
	}
	return b.f.Sync()
}

// Ballot is the newest durable ballot when the directory was opened; nil if there never was one. The caller must not
// change it.
func (d *Dir) Ballot() []byte { return d.ballot }

// Save makes data the newest ballot: it is durable when Save returns nil. data has 1 to [MaxBallot] bytes, and is not
// kept. It succeeds on a full disk if slots are overwritten in place (not on file systems that copy on write). The
// first Save of a directory writes more and takes longer.
func (d *Dir) Save(data []byte) error {
	if len(data) == 0 || len(data) > MaxBallot {
		return fmt.Errorf("%s: a ballot of %d bytes; want 1 to %d", d.path, len(data), MaxBallot)
	}
	if err := d.save(data); err != nil {
		return fmt.Errorf("%s: ballot %d is not saved, and the one before it is safe: %w", d.path, d.ballots.number, err)
	}
	return nil
}

func (d *Dir) save(data []byte) error {
	if err := d.ballots.save(data); err != nil || d.voted {
		return err
	}
	if err := d.ballots.mirror(); err != nil {
		return err
	}
	text, err := encodeIdentity(d.identity, true)
	if err == nil {
		err = replace(d.at, identityName, text)
	}
	d.voted = err == nil
	return err
}

// Mirror writes the ballot of the last successful Save to the second slot, so that one damaged slot loses nothing. The
// node calls it when it has nothing else to save, and then now and then, to learn whether the disk still writes.
func (d *Dir) Mirror() error {
	if err := d.ballots.mirror(); err != nil {
		return fmt.Errorf("%s: the second copy of ballot %d: %w", d.path, d.ballots.number, err)
	}
	return nil
}
