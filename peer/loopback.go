package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/disk"
)

// Every user of a machine can reach every port on the loopback. So nodes without
// certificates make some for themselves, in a directory that only their user can
// read: $XDG_STATE_HOME/elect-loopback/cluster-NAME. A node or a client that shows
// such a certificate can read that directory, so it runs as the same user.

const (
	privateDir    = "elect-loopback"
	privatePrefix = "cluster-" // so that no cluster has the name of the lock file
	privateMaking = ".making-" // begins the names of directories that are not complete
)

// privateLife is the life of these certificates, from privateBirth on. Only access to
// the directory counts, so neither age nor a wrong clock makes them invalid.
const privateLife = 250 * 365 * 24 * time.Hour

func privateBirth() time.Time { return time.Unix(0, 0).AddDate(0, 0, 1) }

const (
	wantOther = "want certs=DIR (elect certs makes them), or insecure=true, with which every user of this machine can elect and depose"

	otherUser = "; the other side is of another user of this machine, or has certs=DIR: want this as that user (sudo -u), or certs=DIR at both sides"
)

// private reports whether the certificates are those in the user's own directory.
func (c *setup) private() bool { return !c.secured() && !c.Insecure && c.connect == nil }

// privateIdentity loads the certificate from the user's own directory. A participant
// makes what is missing there; for a client that is an error, fs.ErrNotExist.
func (c *setup) privateIdentity() (*certs.Identity, error) {
	c.Cluster = cmp.Or(c.Cluster, DefaultCluster)
	if _, err := certs.ParseCluster(c.Cluster); err != nil {
		return nil, err
	}
	base, err := privateBase()
	if err != nil {
		return nil, err
	}
	c.own = filepath.Join(base, privatePrefix+c.Cluster)
	who := protocol.NodeID("")
	if c.takesPart() {
		who = c.ID
	}
	id, err := loadPrivate(c.own, who)
	if err == nil {
		return id, nil
	}
	_, refused := errors.AsType[*privateError](err)
	switch {
	case who == "" && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("it is not of this user (uid %d), who has run no node of cluster %s here (%w); want this as the user of the nodes (sudo -u), or their certs=DIR or insecure=true",
			os.Geteuid(), c.Cluster, err)
	case who != "" && !refused:
		if err = makePrivate(c.own, c.Cluster, who); err == nil {
			return loadPrivate(c.own, who)
		}
		_, refused = errors.AsType[*privateError](err)
	}
	if !refused { // the refusal says what would be right
		err = fmt.Errorf("%w; %s", err, wantOther)
	}
	return nil, fmt.Errorf("certificates for the loopback: %w", err)
}

// privateBase is the directory above these directories. It belongs to the effective user. sudo may keep the HOME of
// another user: that user could read the keys, and the nodes' own user would not find them.
func privateBase() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, privateDir), nil
	}
	uid := os.Geteuid()
	home, says := os.Getenv("HOME"), "is not set"
	if home != "" {
		says = fmt.Sprintf("is %s, which is not this user's own directory", home)
	}
	if info, err := os.Stat(home); err != nil || !filepath.IsAbs(home) || ownerOf(info) != uid {
		home = ""
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			home = u.HomeDir
		}
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("no place for certificates for the loopback: HOME %s, and uid %d has no other; want HOME or XDG_STATE_HOME set; or %s", says, uid, wantOther)
	}
	return filepath.Join(home, ".local", "state", privateDir), nil
}

// privateError says why another user could read or replace the contents of a directory.
type privateError struct{ path, says string }

func (e *privateError) Error() string { return e.path + " " + e.says }

// openPrivate opens a directory that no other user can read or write.
func openPrivate(path string) (*os.Root, error) {
	const remedy = "want it removed while no node runs, and it is made anew; or XDG_STATE_HOME with another directory"
	switch info, err := os.Lstat(path); {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, &privateError{path, "is a link; want a directory: " + remedy}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".") // of the open directory: the name may belong to another one by now
	if err == nil {
		switch owner, uid := ownerOf(info), os.Geteuid(); {
		case owner != uid:
			err = &privateError{path, fmt.Sprintf("belongs to uid %d, and this process is of uid %d; want this as that user (sudo -u), or XDG_STATE_HOME with a directory of this one; or %s", owner, uid, wantOther)}
		case info.Mode()&0o077 != 0:
			err = &privateError{path, fmt.Sprintf("is open to other users (mode %04o), who may have read its keys; %s", info.Mode().Perm(), remedy)}
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// loadPrivate loads the certificate of a node, or if id is "" that of a client.
func loadPrivate(dir string, id protocol.NodeID) (*certs.Identity, error) {
	base, err := openPrivate(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer base.Close()
	root, err := openPrivate(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return certs.LoadRoot(root, string(id), otherUser)
}

// makePrivate makes what a node needs. A process that dies in the middle leaves
// nothing that the next one would use: the directory gets its name only when the
// authority is complete, and a pair that cannot be used is made anew.
func makePrivate(dir, cluster string, id protocol.NodeID) error {
	base := filepath.Dir(dir)
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	opened, err := openPrivate(base)
	if err != nil {
		return err
	}
	defer opened.Close()
	release, err := disk.Hold(context.Background(), base)
	if busy, ok := errors.AsType[*disk.InUse](err); ok {
		return fmt.Errorf("%s: another process (pid %d) has been making certificates for %v; want it ended", base, busy.PID, disk.LockWait)
	}
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // nothing was written through it
	options := certs.Options{Cluster: cluster, Nodes: []certs.Node{{ID: string(id)}}, Operators: []certs.OperatorSpec{{Role: certs.Administer}}, Valid: privateLife, From: privateBirth()}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return foundPrivate(dir, options)
	}
	for _, name := range []protocol.NodeID{id, ""} {
		_, err := loadPrivate(dir, name)
		if _, refused := errors.AsType[*privateError](err); refused {
			return err
		}
		if err != nil {
			name = cmp.Or(name, protocol.NodeID(certs.Administer))
			_ = os.Remove(filepath.Join(dir, string(name)+".crt"))
			_ = os.Remove(filepath.Join(dir, string(name)+".key")) // it may not be there
		}
	}
	if err := certs.Make(dir, options); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; want %s removed while no node runs, and it is made anew", err, dir)
	}
	return nil
}

// foundPrivate makes an authority, with the first node's pair. The lock is held.
func foundPrivate(dir string, options certs.Options) error {
	base := filepath.Dir(dir)
	left, err := os.ReadDir(base)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), privateMaking) { // left by a process that was killed
			err = errors.Join(err, os.RemoveAll(filepath.Join(base, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	making, err := os.MkdirTemp(base, privateMaking)
	if err != nil {
		return err
	}
	if err := certs.Make(making, options); err != nil {
		return errors.Join(err, os.RemoveAll(making))
	}
	return os.Rename(making, dir)
}
