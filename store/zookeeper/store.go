package zookeeper

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/queue"
)

// store is one election in ZooKeeper. Orders are czxids. Each candidacy has a line of its own, because the end of its
// session is what ends its requests; observers and operators share one line with all elections of the process.
//
// The data of the parent is the mark. That of an entry is its text, and after a newline the wish of an operator.
type store struct {
	*reader
	path   string
	layout Layout
	acl    []zk.ACL
	ttl    time.Duration
	warn   func(what string, children []string) // of children that are no candidates

	mu       sync.Mutex
	sessions map[uint64]*candidacy
	latest   *candidacy // the one that was opened last; nil: none is open
	checked  bool       // the rights of the user
	left     sync.WaitGroup
}

var _ queue.Syncer = (*store)(nil)

// candidacy is a session of this participant.
type candidacy struct {
	*line
	prefix   string        // of the names of its entries
	entering chan struct{} // has room for one: an Enter that has not returned

	mu      sync.Mutex
	key     string // of the entry that was touched
	data    string
	version int32           // of data
	changes <-chan zk.Event // told of the first change of the entry since it was read over the link on
	on      *link
}

// Layout says how the entries are named, so that programs of another library can be candidates, too. All candidates of
// an election must have the same.
type Layout string

// The layouts.
const (
	LeaderLatch    Layout = "latch"    // Curator's LeaderLatch
	LeaderSelector Layout = "selector" // Curator's LeaderSelector, and its InterProcessMutex
	Kazoo          Layout = "kazoo"    // Election and Lock of kazoo, in Python
)

var layouts = map[Layout]string{LeaderLatch: "_c_%s-latch-", LeaderSelector: "_c_%s-lock-", Kazoo: "%s__lock__"}

// has reports whether an entry has a name of the layout.
func (l Layout) has(name string) bool {
	_, mark, _ := strings.Cut(layouts[l], "%s")
	return strings.Contains(name, strings.TrimPrefix(mark, "-"))
}

// prefix begins the name of an entry; no other candidacy has the same.
func (l Layout) prefix() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	text := hex.EncodeToString(id[:])
	if l != Kazoo {
		text = text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
	}
	return fmt.Sprintf(layouts[l], text)
}

// isCandidate matches the names of candidates in all layouts. They all wait for those with lower numbers, so that a
// mistake in the layout blocks rather than makes two leaders of elect.
var isCandidate = regexp.MustCompile(`(?:latch-|lock-|__lock__)(-?[0-9]{10})$`)

// lastNumber is where a queue has to be made anew: beyond 2^31 numbers are negative, and order nothing.
const lastNumber = math.MaxInt32 - 1<<20

// usable reports whether an entry may have a number.
func usable(digits string) bool {
	n, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && n >= 0 && n < lastNumber
}

func (s *store) exhausted() error {
	return driver.Permanent(fmt.Errorf("the numbers of the queue %s are used up; want it deleted while nobody leads, and made anew", s.path))
}

// child is a candidate's entry by its name.
type child struct {
	name   string
	number int64
}

// candidates are the children that are candidates, in their order. Others are warned of.
func (s *store) candidates(children []string) (all []child) {
	var others []string
	for _, name := range children {
		m := isCandidate.FindStringSubmatch(name)
		if m == nil {
			others = append(others, name)
			continue
		}
		n, _ := strconv.ParseInt(m[1], 10, 64) // ten digits
		all = append(all, child{name, n})
	}
	if len(others) > 0 && s.warn != nil {
		s.warn("children that are no candidates are ignored", others)
	}
	slices.SortFunc(all, func(a, b child) int { return cmp.Compare(a.number, b.number) })
	return all
}

func isOne(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// goneOr is nil if the entry is gone, which is what a watch waits for.
func goneOr(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// entry is the entry at a path.
func entry(path string, n *node) queue.Entry {
	text, _, _ := strings.Cut(string(n.data), "\n")
	return queue.Entry{Order: uint64(n.stat.Czxid), Session: uint64(n.stat.EphemeralOwner), Key: path, Text: text}
}

func wishIn(data string) string {
	_, wish, _ := strings.Cut(data, "\n")
	return wish
}

// of is the candidacy with a session, nil if this participant has none.
func (s *store) of(session uint64) *candidacy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session]
}

// present is the line of the candidacy, or that of observers if there is none.
func (s *store) present() *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil {
		return s.latest.line
	}
	return s.reader.line
}

// Open implements [queue.Queue].
func (s *store) Open(ctx context.Context, ttl time.Duration) (uint64, time.Duration, error) {
	if err := s.check(ctx); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", queue.ErrNotSent, err)
	}
	l, err := s.connection.dial(ttl, true)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", queue.ErrNotSent, err)
	}
	if err := l.opened(ctx); err != nil {
		s.left.Go(func() { _ = l.close() })
		return 0, 0, err
	}
	c := &candidacy{line: l, prefix: s.layout.prefix(), entering: make(chan struct{}, 1)}
	session, granted := l.granting()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session], s.latest = c, c
	return session, granted, nil
}

// KeepAlive implements [queue.Queue]. The client does it.
func (s *store) KeepAlive(_ context.Context, session uint64) (time.Duration, error) {
	c := s.of(session)
	if c == nil {
		return 0, queue.ErrGone
	}
	_, granted := c.granting()
	return granted, nil
}

// Close implements [queue.Queue]. The client asks once, and then ends; so it is asked when it is connected. If the
// request is lost nevertheless, the session expires: nothing keeps it alive any more.
func (s *store) Close(ctx context.Context, session uint64) error {
	c := s.of(session)
	switch {
	case c == nil:
		return queue.ErrGone
	case !c.connected():
		return fmt.Errorf("%w: no server is connected", queue.ErrNotSent)
	}
	s.mu.Lock()
	delete(s.sessions, session)
	if s.latest == c {
		s.latest = nil
	}
	s.mu.Unlock()
	closed := make(chan error, 1)
	s.left.Go(func() { closed <- c.close() })
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Enter implements [queue.Queue]. It makes another entry each time.
func (s *store) Enter(ctx context.Context, session uint64, text string) (queue.Entry, error) {
	c := s.of(session)
	if c == nil {
		return queue.Entry{}, queue.ErrGone
	}
	select {
	case c.entering <- struct{}{}:
	case <-ctx.Done():
		return queue.Entry{}, fmt.Errorf("%w: %w", queue.ErrNotSent, context.Cause(ctx))
	}
	made, err := call(ctx, c.line, func(conn *zk.Conn) (string, error) {
		defer func() { <-c.entering }()
		return conn.Create(s.path+"/"+c.prefix, []byte(text), zk.FlagEphemeral|zk.FlagSequence, s.acl)
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // somebody has deleted the queue
		if err := s.make(ctx, c.line); err != nil {
			return queue.Entry{}, fmt.Errorf("%w: %w", queue.ErrNotSent, err)
		}
		return queue.Entry{}, fmt.Errorf("%w: the queue was missing, and is made anew", queue.ErrNotSent)
	case err != nil:
		return queue.Entry{}, err
	}
	found, err := c.look(ctx, made, false)
	if errors.Is(err, zk.ErrNoNode) {
		return queue.Entry{}, queue.ErrGone
	} else if err != nil {
		return queue.Entry{}, err
	}
	if m := isCandidate.FindStringSubmatch(made); m == nil || !usable(m[1]) {
		_, _ = call(ctx, c.line, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(made, -1) }) // else it goes with the session
		return queue.Entry{}, fmt.Errorf("%w: %w", queue.ErrNotSent, s.exhausted())
	}
	c.knows(made, &found)
	return entry(made, &found), nil
}

// Sync implements [queue.Syncer]. An Enter that has not returned may still be written to a connection, so it waits for
// that. What was written to an earlier connection a server refuses when the session has left it.
func (s *store) Sync(ctx context.Context, session uint64) error {
	c := s.of(session)
	if c == nil {
		return queue.ErrGone
	}
	select {
	case c.entering <- struct{}{}:
		<-c.entering
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", queue.ErrNotSent, context.Cause(ctx))
	}
	_, err := call(ctx, c.line, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(&zk.CheckVersionRequest{Path: s.path, Version: -1}) // which a majority commits
	})
	return goneOr(err) // also that the queue is missing is committed
}

// List implements [queue.Queue]. Numbers only rise, so what is first is so at the moment when it is read and those
// before it are missing; and so is what is just before own.
func (s *store) List(ctx context.Context, own queue.Entry) (l queue.Listing, err error) {
	from, prefix := s.reader.line, ""
	if own.Session != 0 {
		c := s.of(own.Session)
		if c == nil {
			return l, queue.ErrGone
		}
		from, prefix = c.line, c.prefix
	} else if _, err = call(ctx, from, func(c *zk.Conn) (string, error) { return c.Sync(s.path) }); goneOr(err) != nil {
		return l, err
	}
	found, err := from.look(ctx, s.path, true)
	if err != nil {
		return l, goneOr(err)
	}
	all := s.candidates(found.children)
	at := slices.IndexFunc(all, func(c child) bool { return own.Order != 0 && c.name == path.Base(own.Key) })
	seen := map[string]uint64{}
	read := func(name string) (order uint64, err error) { // 0: it is gone
		if order = seen[name]; order != 0 {
			return order, nil
		}
		n, err := from.look(ctx, s.path+"/"+name, false)
		if errors.Is(err, zk.ErrNoNode) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
		if len(l.Entries) == 0 {
			l.Wish = wishIn(string(n.data)) // of the first
		}
		e := entry(s.path+"/"+name, &n)
		l.Entries, seen[name] = append(l.Entries, e), e.Order
		return e.Order, nil
	}
	for i, order := 0, uint64(0); i < len(all) && order == 0; i++ {
		if order, err = read(all[i].name); err != nil {
			return l, err
		}
	}
	// A number that was made by hand may be lower than that of an older entry.
	for i, order := at-1, uint64(0); i >= 0 && (order == 0 || order > own.Order); i-- {
		if order, err = read(all[i].name); err != nil {
			return l, err
		}
	}
	for _, c := range all {
		if prefix != "" && strings.HasPrefix(c.name, prefix) {
			if _, err = read(c.name); err != nil {
				return l, err
			}
		}
	}
	slices.SortFunc(l.Entries, func(a, b queue.Entry) int { return cmp.Compare(a.Order, b.Order) })
	marked, err := from.look(ctx, s.path, false)
	if err != nil {
		return l, goneOr(err)
	}
	l.Mark, l.Revision = string(marked.data), uint64(max(marked.stat.Mzxid, marked.stat.Pzxid))
	return l, nil
}

// Verify implements [queue.Queue]. It may lag behind.
func (s *store) Verify(ctx context.Context, own queue.Entry) (queue.Listing, error) {
	l, err := s.List(ctx, own)
	if err == nil && !slices.ContainsFunc(l.Entries, func(e queue.Entry) bool { return e.Order == own.Order && e.Session == own.Session }) {
		err = queue.ErrGone
	}
	return l, err
}

// knows notes what an entry of its own is.
func (c *candidacy) knows(key string, n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != key || n.stat.Version >= c.version {
		c.key, c.data, c.version = key, string(n.data), n.stat.Version
	}
}

// known is the data of an entry and their version. They are read if they are not known, or not of an own entry. Another
// entry at the same path is not own.
func (c *candidacy) known(ctx context.Context, l *line, own *queue.Entry) (data string, version int32, err error) {
	if c != nil {
		c.mu.Lock()
		key, data, version := c.key, c.data, c.version
		c.mu.Unlock()
		if key == own.Key {
			return data, version, nil
		}
	}
	n, err := l.look(ctx, own.Key, false)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return "", 0, queue.ErrGone
	case err != nil:
		return "", 0, err
	case uint64(n.stat.Czxid) != own.Order || uint64(n.stat.EphemeralOwner) != own.Session:
		return "", 0, queue.ErrGone
	}
	if c != nil {
		c.knows(own.Key, &n)
	}
	return string(n.data), n.stat.Version, nil
}

// forget makes the next request read the entry again, which somebody has changed.
func (c *candidacy) forget() {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.key = ""
	}
}

// still returns ErrGone unless the entry was there when a request of this session was carried out that has been answered
// now. The condition of that was the version of the entry, which another one may have that was made in its place. The
// entry is the same if it was read and no change of it was told: a server tells that before it answers what comes later,
// over one connection. Else it is read again.
func (c *candidacy) still(ctx context.Context, own *queue.Entry) error {
	if c.unchanged() {
		return nil
	}
	c.line.mu.Lock()
	on := c.link
	c.line.mu.Unlock()
	var changes <-chan zk.Event
	n, err := call(ctx, c.line, func(conn *zk.Conn) (n node, err error) {
		n.data, n.stat, changes, err = conn.GetW(own.Key)
		return n, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return queue.ErrGone
	case err != nil:
		return err
	case uint64(n.stat.Czxid) != own.Order || uint64(n.stat.EphemeralOwner) != own.Session:
		return queue.ErrGone
	}
	c.knows(own.Key, &n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes, c.on = changes, on
	return nil
}

// unchanged reports whether no change of the entry was told since it was read, over the present connection.
func (c *candidacy) unchanged() bool {
	c.line.mu.Lock()
	now := c.link
	c.line.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == nil || c.on != now {
		return false
	}
	select {
	case <-c.changes:
		c.changes = nil
	default:
	}
	return c.changes != nil
}

// attempts is how often a request is made whose condition was a version that another request has changed meanwhile.
const attempts = 4

// Touch implements [queue.Queue]. The first one writes the entry, and reads from the answer that it is this one. After
// that the others are a transaction that only checks the version. A majority commits it as any write, and it wakes
// nobody who watches the entry.
func (s *store) Touch(ctx context.Context, own queue.Entry) (l queue.Listing, err error) {
	c := s.of(own.Session)
	if c == nil {
		return l, queue.ErrGone
	}
	for range attempts {
		data, version, err := c.known(ctx, c.line, &own)
		if err != nil {
			return l, err
		}
		if version == 0 {
			var stat *zk.Stat
			stat, err = call(ctx, c.line, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(own.Key, []byte(data), 0) })
			if err == nil && (uint64(stat.Czxid) != own.Order || uint64(stat.EphemeralOwner) != own.Session) {
				return l, queue.ErrGone
			}
			if err == nil {
				c.knows(own.Key, &node{data: []byte(data), stat: stat})
			}
		} else {
			_, err = call(ctx, c.line, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
				return conn.Multi(&zk.CheckVersionRequest{Path: own.Key, Version: version})
			})
			if err == nil {
				err = c.still(ctx, &own)
			}
		}
		switch {
		case err == nil:
			return queue.Listing{Entries: []queue.Entry{own}, Wish: wishIn(data)}, nil
		case errors.Is(err, zk.ErrNoNode):
			return l, queue.ErrGone
		case !errors.Is(err, zk.ErrBadVersion):
			return l, err
		}
		c.forget()
	}
	return l, errBusy
}

// errBusy: others have changed the entry again and again.
var errBusy = fmt.Errorf("%w: the entry is changed too often", queue.ErrNotSent)

// WatchTouch implements [queue.Queue]. No candidate watches touches in this dialect.
func (*store) WatchTouch(context.Context, uint64, func(queue.Touch)) error {
	return driver.ErrUnsupported
}

// Change implements [queue.Queue]. The condition is the version of the entry.
func (s *store) Change(ctx context.Context, own queue.Entry, ch queue.Change) error {
	c, l := s.of(own.Session), s.reader.line
	if c != nil {
		l = c.line
	}
	for range attempts {
		data, version, err := c.known(ctx, l, &own)
		if err != nil {
			return err
		}
		text, wish, _ := strings.Cut(data, "\n")
		text, wish = cmp.Or(ch.Text, text), cmp.Or(ch.Wish, wish)
		if wish != "" {
			text += "\n" + wish
		}
		var ops []any
		switch {
		case ch.Leave:
			ops = append(ops, &zk.DeleteRequest{Path: own.Key, Version: version})
		case text != data:
			ops = append(ops, &zk.SetDataRequest{Path: own.Key, Data: []byte(text), Version: version})
		default:
			ops = append(ops, &zk.CheckVersionRequest{Path: own.Key, Version: version})
		}
		if ch.Mark != "" {
			ops = append(ops, &zk.SetDataRequest{Path: s.path, Data: []byte(ch.Mark), Version: -1})
		}
		answers, err := call(ctx, l, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
		switch {
		case err == nil:
			if c == nil || ch.Leave {
				return nil
			}
			if text != data {
				c.knows(own.Key, &node{data: []byte(text), stat: answers[0].Stat})
			}
			return c.still(ctx, &own)
		case errors.Is(err, zk.ErrNoNode):
			return queue.ErrGone
		case !errors.Is(err, zk.ErrBadVersion):
			return err
		}
		c.forget()
	}
	return errBusy
}
