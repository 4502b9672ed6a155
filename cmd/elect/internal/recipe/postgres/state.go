package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/electd/elect/internal/place"
)

// stateName is the file in the state directory.
const stateName = "postgres.json"

// maxState bounds that file.
const maxState = 16 << 20

// saved is that file.
type saved struct {
	Version int    `json:"version"`
	Name    string `json:"name"` // of the cluster
	ID      string `json:"id"`
	Paused  bool   `json:"paused,omitempty"`
	// Confirm and Nodes are those of the configuration under which this node has promised and confirmed: see fits.
	Confirm int      `json:"confirm,omitempty"`
	Nodes   []string `json:"nodes,omitempty"`
	record
}

// fits checks that a node counts as it did before, and notes how. A node that counts otherwise than those that confirmed
// a commit is promoted without it: with confirm 2 of 3 it needs nobody's answer, and with 1 another one alone has it.
func (of *saved) fits(s *Settings) error {
	ids := slices.Sorted(slices.Values(s.ids()))
	if of.Confirm != 0 && (of.Confirm != s.Confirm || !slices.Equal(of.Nodes, ids)) {
		return fmt.Errorf("confirm is %d of %s, and the data of this node was made with %d of %s; want that, or the steps of Changes in docs/postgres.md",
			s.Confirm, strings.Join(ids, ", "), of.Confirm, strings.Join(of.Nodes, ", "))
	}
	of.Confirm, of.Nodes = s.Confirm, ids
	return nil
}

// keeper keeps what must survive a crash.
type keeper interface {
	load() (saved, error) // the zero value if nothing was saved
	save(saved) error     // durable when it returns
}

// stateFile is the keeper of a state directory, which is locked until Close.
type stateFile struct {
	dir      *place.Dir
	name, id string
}

// openState opens and locks the directory.
func openState(path, name, id string) (*stateFile, error) {
	dir, err := place.At{Path: path}.Make()
	if err != nil {
		return nil, fmt.Errorf("the state directory: %w", err)
	}
	if err := dir.Lock(); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses the state directory %s: %w; want a directory for each node", path, err), dir.Close())
	}
	return &stateFile{dir: dir, name: name, id: id}, nil
}

func (s *stateFile) Close() error { return s.dir.Close() }

func (s *stateFile) load() (of saved, err error) {
	text, err := s.dir.Read(stateName, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return saved{}, nil
	}
	if err != nil {
		return saved{}, err
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return saved{}, fmt.Errorf("%s/%s: %w; want it as it was written. Without it this node counts as one that was lost: it is copied anew from the primary", s.dir.Path(), stateName, err)
	}
	if of.Version != 1 || of.Name != s.name || of.ID != s.id {
		return saved{}, fmt.Errorf("%s/%s is of version %d, node %s of cluster %s; want version 1, %s of %s", s.dir.Path(), stateName, of.Version, of.ID, of.Name, s.id, s.name)
	}
	return of, nil
}

func (s *stateFile) save(of saved) error {
	of.Version, of.Name, of.ID = 1, s.name, s.id
	text, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		return err
	}
	return s.dir.Save(stateName, append(text, '\n'))
}
