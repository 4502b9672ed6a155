package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestNewest: the newest timeline of which there is WAL, among those that go through what the control file knows.
func TestNewest(t *testing.T) {
	const segment = 16 << 20
	histories := map[uint32]string{
		2: "1\t0/1000100\tno recovery target specified\n",
		3: "# a comment\n1\t0/1000100\tno recovery target specified\n\n2\t0/1000200\tno recovery target specified\n",
		4: "1\t0/1000050\tno recovery target specified\n", // of a term that was given up
	}
	for _, c := range []struct {
		name     string
		k        known
		segments map[uint32]uint64 // a segment of a timeline
		want     uint32
		short    uint32 // the timeline whose segment is empty
	}{
		{"no other timeline", known{timeline: 1, lsn: 0x1000080}, map[uint32]uint64{1: 1}, 1, 0},
		{"received", known{timeline: 1, lsn: 0x1000080}, map[uint32]uint64{1: 1, 2: 1, 3: 1}, 3, 0},
		{"not all of which there is a history were received", known{timeline: 1, lsn: 0x1000080}, map[uint32]uint64{1: 1, 2: 1}, 2, 0},
		{"what is known is where a timeline ends", known{timeline: 2, lsn: 0x1000200}, map[uint32]uint64{2: 1, 3: 1}, 3, 0},
		{"and where the first one does", known{timeline: 1, lsn: 0x1000100}, map[uint32]uint64{1: 1, 3: 1}, 3, 0},
		{"what is known is after the fork", known{timeline: 1, lsn: 0x1000108}, map[uint32]uint64{1: 1, 2: 1, 3: 1}, 1, 0},
		{"a timeline forked before what is known", known{timeline: 1, lsn: 0x1000080}, map[uint32]uint64{1: 1, 2: 1, 4: 1}, 2, 0},
		{"a segment is not whole", known{timeline: 1, lsn: 0x1000080}, map[uint32]uint64{1: 1, 2: 1, 3: 1}, 2, 3},
		{"only a segment before the timeline begins", known{timeline: 1, lsn: 0x1000080}, map[uint32]uint64{1: 1, 2: 0}, 1, 0},
	} {
		s := &Server{data: t.TempDir()}
		wal := filepath.Join(s.data, "pg_wal")
		must(t, os.Mkdir(wal, 0o700))
		for timeline, text := range histories {
			must(t, os.WriteFile(s.historyFile(timeline), []byte(text), 0o600))
		}
		for timeline, n := range c.segments {
			name := filepath.Join(wal, segmentFile(timeline, n*segment, segment))
			must(t, os.WriteFile(name, nil, 0o600))
			if timeline != c.short {
				must(t, os.Truncate(name, segment))
			}
		}
		c.k.segment = segment
		all, err := s.newest(c.k)
		if err != nil || all[len(all)-1].timeline != c.want {
			t.Errorf("%s: %v, %v; want timeline %d", c.name, all, err, c.want)
		}
	}
	_, all, err := (&Server{data: "/nowhere"}).history(1)
	if err != nil || !slices.Equal(all, []epoch{{1, 0}}) {
		t.Errorf("%v, %v; want timeline 1 alone", all, err)
	}
	if _, err := parseHistory("1 no LSN\n", 2); err == nil {
		t.Error("a malformed history is read")
	}
	if got := fmt.Sprint(FormatLSN(0x100000002), " ", segmentFile(2, 0x1_0100_0000, segment)); got != "1/2 000000020000000100000001" {
		t.Error(got)
	}
}
