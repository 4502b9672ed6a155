package group

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/alive"
	"github.com/electd/elect/internal/protocol"
)

// testament is what a keeper needs to be the witness of a member's process. What changes while the process lives, an
// remains, is in the file that the keeper keeps, and that it has when the process is dead.
type testament struct {
	Scheme  string         `json:"scheme"` // so that a program can tell whose testament it is
	Version int            `json:"version"`
	Group   string         `json:"group"`
	ID      string         `json:"id"`
	Process protocol.Nonce `json:"process"`
	Bits    int            `json:"bits"`
	Secure  bool           `json:"secure"` // with certificates
	Params  string         `json:"params"` // of the URL, those of the group
	Dir     string         `json:"dir"`    // from which the names of files are meant
	// Streams is [driver.StreamInfo.Key], if the coordinator's election carries the connections.
	Streams json.RawMessage `json:"streams,omitempty"`
}

const (
	testamentScheme  = "group"
	testamentVersion = 1
)

// remains is what a witness has to know of the last moment of a process.
type remains struct {
	// Bare is how much work goes on that no keeper has: what it has started may be alive, and no witness speaks.
	Bare        int    `json:"bare,omitzero"`
	Coordinator spot   `json:"coordinator,omitzero"` // unless it was this process
	Others      []spot `json:"others,omitzero"`      // that may be the next coordinator
	// Election is the testament of the process's last term as coordinator. That term had no work in other processes.
	Election json.RawMessage `json:"election,omitempty"`
}

// spot is where a member can be reached.
type spot struct {
	ID   string `json:"id"`
	Addr string `json:"addr"`
}

// witnessed keeps what a witness has to know of this process, in a file that its keepers have, too.
type witnessed struct {
	g *Group

	mu     sync.Mutex
	file   *os.File // nil until a keeper needs it
	failed bool     // there is none
	now    remains
}

// knows changes what is left.
func (w *witnessed) knows(change func(*remains)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.now)
	w.write()
}

// bare notes work that no keeper has. It is called before the work begins. Some is as good as much: only the first and
// the last is written.
func (w *witnessed) bare(t *tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.bare = true
	if w.now.Bare++; w.now.Bare == 1 {
		w.write()
	}
}

// settle notes that work has returned, or that a keeper has it.
func (w *witnessed) settle(t *tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.bare {
		return
	}
	t.bare = false
	if w.now.Bare--; w.now.Bare == 0 {
		w.write()
	}
}

// coordinates notes a term as coordinator. What it says stays true after its end.
func (w *witnessed) coordinates(term *elect.Term) {
	if data := term.Testament().Data; len(data) > 0 {
		w.knows(func(e *remains) { e.Election = data })
	}
}

// write writes what is left, with a sum, because a process may die in the middle of it. The lock is held.
func (w *witnessed) write() {
	if w.file == nil {
		return
	}
	line, err := json.Marshal(&w.now)
	if err == nil {
		_, err = w.file.WriteAt(fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(line), line), 0)
	}
	if err != nil {
		w.g.log.Warn("no witness can speak for this process", "error", err)
		_ = w.file.Truncate(0) // which is no remains
	}
}

// readRemains reads what write wrote.
func readRemains(text []byte) (e remains, err error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	sum, line, _ := bytes.Cut(line, []byte(" "))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(line)) {
		return e, errors.New("the process died while it wrote what its witness has to know")
	}
	return e, json.Unmarshal(line, &e)
}

// testament is for the keeper that gets the work of t, or if t is nil that of the shards.
func (w *witnessed) testament(t *tenure) (out driver.Testament) {
	if !alive.Supported || t != nil && t.returned() {
		return out
	}
	dir, err := os.Getwd()
	if err != nil {
		return out // files would not be found
	}
	own := testament{
		Scheme: testamentScheme, Version: testamentVersion, Group: w.g.cfg.Name, ID: w.g.id, Process: w.g.process, Bits: w.g.cfg.TokenBits,
		Secure: w.g.cfg.TLS != nil, Params: w.g.cfg.params, Dir: dir,
	}
	if w.g.streams != nil {
		own.Streams = w.g.streams.Streams().Key
	}
	out.Data, err = json.Marshal(own)
	if err != nil || !w.open() {
		return driver.Testament{}
	}
	if t != nil {
		w.settle(t)
	}
	out.Keep = []*os.File{w.file}
	return out
}

// open makes the file if there is none yet.
func (w *witnessed) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil && !w.failed {
		f, err := alive.File(witnessedName(w.g.process))
		if err != nil {
			w.failed = true
			w.g.log.Warn("no witness can speak for this process", "error", err)
			return false
		}
		w.file = f
		w.write()
	}
	return w.file != nil
}

func (w *witnessed) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
}

func witnessedName(process protocol.Nonce) string { return "elect-group-" + process.String() }

// findRemains reads the remains of a process in a file that this process has.
func findRemains(process protocol.Nonce) (e remains, err error) {
	const own = "/proc/self/fd/"
	all, err := os.ReadDir(own)
	if err != nil {
		return e, err
	}
	for _, f := range all {
		if to, _ := os.Readlink(own + f.Name()); strings.HasPrefix(to, "/memfd:"+witnessedName(process)+" ") {
			text, err := os.ReadFile(own + f.Name())
			if err != nil {
				return e, err
			}
			return readRemains(text)
		}
	}
	return e, errors.New("this process has not the file of the dead one; want that which was kept until the process was dead")
}

// maxPlaces is how many members are told to others as possible coordinators.
const maxPlaces = 16

// placed learns of a connection that comes or goes. All members know some of those that may be the next coordinator,
// for their witnesses.
func (c *coordinator) placed(from *connection) {
	if from.control {
		return
	}
	at := spot{from.member, from.place}
	here := c.conns[from.conn] == from
	was := len(c.places)
	switch {
	case here && from.place != "" && was < maxPlaces && !c.isPlace(at):
		c.places = append(c.places, at)
	case !here && c.isPlace(at):
		c.places = c.places[:0:0] // of those who are here
		for _, g := range c.conns {
			if s := (spot{g.member, g.place}); !g.control && g.place != "" && len(c.places) < maxPlaces && !c.isPlace(s) {
				c.places = append(c.places, s)
			}
		}
	case here:
		from.link.Send(places(c.places))
		return
	default:
		return
	}
	p := places(c.places)
	for _, g := range c.conns {
		if !g.control {
			g.link.Send(p)
		}
	}
}

func (c *coordinator) isPlace(at spot) bool { return slices.Contains(c.places, at) }

func places(all []spot) wire.Packet {
	s := &wire.Side{Kind: wire.Places}
	for _, p := range all {
		s.Entries = append(s.Entries, wire.Entry{Member: p.ID, Metadata: []byte(p.Addr)})
	}
	return wire.Packet{Side: s}
}

// spots are those that a message names, without one member.
func spots(s *wire.Side, without string) (all []spot) {
	for i := range s.Entries {
		if e := &s.Entries[i]; e.Member != without {
			all = append(all, spot{e.Member, string(e.Metadata)})
		}
	}
	return all
}
