package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"syscall"

	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
)

// Elections is the directory in a host's directory that holds one data directory for each election, named after the
// election.
const Elections = "elections"

// Host is the contents of a host's directory. Other hosts use it to tell processes apart. No vote depends on it: a
// voter is bound to the data directory of its election, which has a Dir of its own.
type Host struct {
	Cluster string
	ID      protocol.NodeID
	Dir     protocol.DirID // drawn when the directory was made
	Starts  uint64         // how often OpenHost has succeeded, this time included
}

// hostFile is the content of the file identity in a host's directory.
type hostFile struct {
	Format  int             `json:"format"`
	Cluster string          `json:"cluster"`
	ID      protocol.NodeID `json:"id"`
	Dir     protocol.DirID  `json:"dir"`
	Starts  uint64          `json:"starts"`
}

func encodeHost(h Host) ([]byte, error) {
	return seal(hostFile{format, h.Cluster, h.ID, h.Dir, h.Starts})
}

// decodeHost reads what encodeHost wrote.
func decodeHost(text []byte) (Host, error) {
	var f hostFile
	if err := unseal(text, &f); err != nil {
		if i, _, wrong := decodeIdentity(text); wrong == nil {
			return Host{}, fmt.Errorf("it is that of a data directory, of %v; want the directory above the data directories of all nodes", i)
		}
		return Host{}, err
	}
	h := Host{f.Cluster, f.ID, f.Dir, f.Starts}
	if err := h.validate(); err != nil {
		return Host{}, err
	}
	switch {
	case h.Dir == protocol.DirID{}:
		return Host{}, errors.New("its directory id is all zeros")
	case h.Starts == 0 || h.Starts == math.MaxUint64:
		return Host{}, fmt.Errorf("it was started %d times", h.Starts)
	}
	return h, nil
}

// full reports whether the disk, or this user's quota, is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (h Host) validate() error {
	return Identity{Cluster: h.Cluster, Election: Elections, ID: h.ID}.validate()
}

// OpenHost opens a host's directory, makes it if it is absent, and counts the start durably. On a full disk the count
// of a known host is not durable: the next start may have the same count, and then other hosts accept the new process
// only when the connection of the former one has ended. The directory is locked only until OpenHost returns, so
// several processes may use it: each data directory in it has a lock of its own. Errors are those of [Open].
func OpenHost(ctx context.Context, at place.At, cluster string, id protocol.NodeID) (h Host, err error) {
	own := Host{Cluster: cluster, ID: id}
	if err := own.validate(); err != nil {
		return h, fmt.Errorf("%s: %w", at, err)
	}
	dir, err := at.Make()
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	locked, err := await(ctx, dir)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, closeAll(locked)) }()
	return openHost(root{dir}, dir.Path(), own)
}

func openHost(at folder, path string, own Host) (Host, error) {
	text, err := read(at, identityName, maxSealed)
	if err != nil {
		return Host{}, err
	}
	h := own
	if text == nil {
		_, _ = rand.Read(h.Dir[:]) // never fails
	} else if h, err = decodeHost(text); err != nil {
		return Host{}, refused(path, "its file %s cannot be used: %v", identityName, err)
	}
	if h.Cluster != own.Cluster || h.ID != own.ID {
		return Host{}, refused(path, "it belongs to %s in the cluster %q, and not to %s in the cluster %q; want a directory for each node",
			h.ID, h.Cluster, own.ID, own.Cluster)
	}
	known := text != nil
	h.Starts++
	if text, err = encodeHost(h); err == nil {
		err = replace(at, identityName, text)
	}
	switch {
	case err == nil:
	case known && full(err): // the node votes all the same: its ballot has its space
	default:
		return Host{}, fmt.Errorf("%s: the start cannot be counted: %w", path, err)
	}
	return h, nil
}

// Former returns an error if an older version of this program has left the data directory of an election at old:
// founding the election again at now would forget its votes. It returns nil if there is none.
func Former(old, now place.At) error {
	dir, err := old.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range []string{identityName, ballotName} {
		info, err := dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode.IsRegular() {
			return refused(dir.Path(), "it is a data directory in the place where an older version of this program had it, with the votes of its node; "+
				"want it moved to %s while no node uses it", filepath.Clean(now.String()))
		}
	}
	return nil
}
