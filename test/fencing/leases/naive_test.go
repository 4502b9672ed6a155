//go:build linux && cgo

package leases_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	goredsync "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/electd/elect"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/fencing/zombie"
)

// job describes a client of a lock. It runs in a process of its own, which does as it is told.
type job struct {
	Lock string   // a name of locks
	ID   string   // of the client
	At   []string // where the lock is: addresses of Redis, or a URL
	TTL  time.Duration
	Skew time.Duration // of the application's wall clock, beside the true one
	Life time.Duration // after which the pool of database/sql closes a connection; 0 never

	// Log is where a leader writes: a Redis or a PostgreSQL, with what elect fence calls a resource named log.
	Log string
}

const jobEnv = "LEASES_JOB"

// lock is one as people write it, and an election of elect beside them.
type lock interface {
	acquire(ctx context.Context) error // returns when the client is told that it has it
	leads() bool                       // whether the client believes that it has it; asks no server
	token() fence.Token                // 0: there is none
}

// locks makes each kind.
var locks = map[string]func(job) (lock, error){
	"set-nx": func(j job) (lock, error) {
		return &setNX{job: j, client: goredis.NewClient(&goredis.Options{Addr: j.At[0]})}, nil
	},
	"redlock":  newRedlock,
	"update":   newUpdate,
	"advisory": newAdvisory,
	"elect":    newElection,
}

// belief is what a client takes to be so until it learns otherwise, which it asks for in the background.
type belief struct{ atomic.Bool }

func (b *belief) begin(every time.Duration, still func() bool) {
	b.Store(true)
	go func() {
		for range time.Tick(every) {
			if !still() {
				b.Store(false)
				return
			}
		}
	}()
}

func (b *belief) leads() bool      { return b.Load() }
func (*belief) token() fence.Token { return 0 }

// tryUntil asks for a lock until it is granted.
func tryUntil(ctx context.Context, every time.Duration, try func() (bool, error)) error {
	for {
		if ok, err := try(); ok && err == nil {
			return nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setNX is SET NX PX, renewed by the script that looks whose it is.
type setNX struct {
	belief
	job
	client *goredis.Client
}

var renewal = goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`)

func (l *setNX) acquire(ctx context.Context) error {
	if err := tryUntil(ctx, l.TTL/20, func() (bool, error) { return l.client.SetNX(ctx, "lock", l.ID, l.TTL).Result() }); err != nil {
		return err
	}
	l.begin(l.TTL/3, func() bool {
		n, err := renewal.Run(ctx, l.client, []string{"lock"}, l.ID, l.TTL.Milliseconds()).Int()
		return err == nil && n == 1
	})
	return nil
}

// redlock is that of redsync, extended in time. It looks at how long the lock is valid, too.
type redlock struct {
	belief
	job
	mutex *redsync.Mutex
	until atomic.Int64
}

func newRedlock(j job) (lock, error) {
	var servers []redsyncredis.Pool
	for _, addr := range j.At {
		servers = append(servers, goredsync.NewPool(goredis.NewClient(&goredis.Options{Addr: addr})))
	}
	return &redlock{job: j, mutex: redsync.New(servers...).NewMutex("lock", redsync.WithExpiry(j.TTL), redsync.WithTries(1))}, nil
}

func (l *redlock) acquire(ctx context.Context) error {
	if err := tryUntil(ctx, l.TTL/20, func() (bool, error) { return l.mutex.LockContext(ctx) == nil, nil }); err != nil {
		return err
	}
	l.until.Store(l.mutex.Until().UnixNano())
	l.begin(l.TTL/3, func() bool {
		ok, err := l.mutex.ExtendContext(ctx)
		l.until.Store(l.mutex.Until().UnixNano())
		return ok && err == nil
	})
	return nil
}

func (l *redlock) leads() bool { return l.belief.leads() && time.Now().UnixNano() < l.until.Load() }

// update is the row of the textbook, by the database's clock, or by the application's if that is said to be skewed.
type update struct {
	belief
	job
	db *sql.DB
}

const rowOfTheTextbook = "CREATE TABLE leader (holder text, expires_at timestamptz); INSERT INTO leader VALUES ('', '-infinity')"

func newUpdate(j job) (lock, error) {
	db, err := sql.Open("pgx", j.At[0])
	return &update{job: j, db: db}, err
}

func (l *update) now() any {
	if l.Skew == 0 {
		return nil
	}
	return time.Now().Add(l.Skew)
}

func (l *update) exec(ctx context.Context, where string) (bool, error) {
	r, err := l.db.ExecContext(ctx, "UPDATE leader SET holder = $1, expires_at = coalesce($2, now()) + $3::interval WHERE "+where, l.ID, l.now(), l.TTL.String())
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

func (l *update) acquire(ctx context.Context) error {
	if err := tryUntil(ctx, l.TTL/20, func() (bool, error) { return l.exec(ctx, "expires_at < coalesce($2, now())") }); err != nil {
		return err
	}
	l.begin(l.TTL/3, func() bool {
		ok, err := l.exec(ctx, "holder = $1 AND expires_at > coalesce($2, now())")
		return ok && err == nil
	})
	return nil
}

// advisory is a session-level advisory lock by a pool: that of database/sql, and PgBouncer if that is where it is.
type advisory struct {
	belief
	job
	db *sql.DB
}

func newAdvisory(j job) (lock, error) {
	db, err := sql.Open("pgx", j.At[0])
	if err == nil {
		db.SetConnMaxLifetime(j.Life)
	}
	return &advisory{job: j, db: db}, err
}

func (l *advisory) acquire(ctx context.Context) error {
	if err := tryUntil(ctx, l.TTL/20, func() (ok bool, err error) {
		return ok, l.db.QueryRowContext(ctx, "SELECT pg_try_advisory_lock(1)").Scan(&ok)
	}); err != nil {
		return err
	}
	l.begin(l.TTL/3, func() bool { return l.db.PingContext(ctx) == nil })
	return nil
}

// election is elect's. The client leads once.
type election struct {
	*elect.Election
	term *elect.Term
}

func newElection(j job) (lock, error) {
	e, err := elect.Openers(openers).Open(context.Background(), j.At[0], "e", elect.Config{ID: j.ID, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("id", j.ID)})
	return &election{Election: e}, err
}

func (l *election) acquire(ctx context.Context) error {
	first, ended := make(chan *elect.Term), make(chan error, 1)
	go func() {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended <- l.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
			first <- term
			<-ctx.Done()
			stop()
			return nil
		})
	}()
	select {
	case l.term = <-first:
		return nil
	case err := <-ended:
		return err
	}
}

func (l *election) leads() bool        { return l.term.Check() == nil }
func (l *election) token() fence.Token { return l.term.Token() }

// ledger is the resource: a list, to which a leader appends.
type ledger struct {
	client *goredis.Client // one of them is nil
	db     *sql.DB
}

func openLedger(at string) (*ledger, error) {
	if !strings.Contains(at, "://") {
		return &ledger{client: goredis.NewClient(&goredis.Options{Addr: at})}, nil
	}
	db, err := sql.Open("pgx", at)
	return &ledger{db: db}, err
}

func (l *ledger) guards() (*fenceredis.Guard, *fencesql.Guard, error) {
	if l.client != nil {
		g, err := fenceredis.New(l.client, "log", fenceredis.Config{})
		return g, nil, err
	}
	g, err := fencesql.New(l.db, fencesql.PostgreSQL, "log", fencesql.Config{})
	return nil, g, err
}

func (l *ledger) install(ctx context.Context) error {
	r, s, err := l.guards()
	switch {
	case err != nil:
		return err
	case r != nil:
		return r.Install(ctx)
	}
	if err := s.Install(ctx); err != nil {
		return err
	}
	_, err = l.db.ExecContext(ctx, "CREATE TABLE log (n bigserial, value text)")
	return err
}

func (l *ledger) claim(ctx context.Context, token fence.Token) error {
	r, s, err := l.guards()
	switch {
	case err != nil:
		return err
	case r != nil:
		return r.Claim(ctx, token)
	}
	return s.Claim(ctx, token)
}

const appends = "INSERT INTO log (value) VALUES ($1)"

func (l *ledger) write(ctx context.Context, token fence.Token, value string) error {
	r, s, err := l.guards()
	switch {
	case err != nil:
	case r != nil && token == 0:
		return l.client.RPush(ctx, r.Key("log"), value).Err()
	case r != nil:
		_, err = r.Write(ctx, token, fenceredis.Command{Name: "RPUSH", Key: r.Key("log"), Args: []any{value}})
	case token == 0:
		_, err = l.db.ExecContext(ctx, appends, value)
	default:
		err = s.Write(ctx, token, nil, func(tx *sql.Tx) error { _, err := tx.ExecContext(ctx, appends, value); return err })
	}
	return err
}

func (l *ledger) read(ctx context.Context) (all []string, err error) {
	if r, _, err := l.guards(); r != nil || err != nil {
		return l.client.LRange(ctx, r.Key("log"), 0, -1).Val(), err
	}
	var text string
	err = l.db.QueryRowContext(ctx, "SELECT coalesce(string_agg(value, ' ' ORDER BY n), '') FROM log").Scan(&text)
	return strings.Fields(text), err
}

// deed is what a client is told to do, and says that it has done.
type deed struct {
	Do    string // acquire, ask whether it believes that it leads, or write if it does
	Value string
	Pause bool // the process stops between the question and the write, until the test resumes it

	Yes   bool   // it has the lock, believes so, has written
	Stale bool   // the write was refused
	Error string `json:",omitempty"`
}

// serveJob makes this process a client if it was started as one.
func serveJob() {
	text := os.Getenv(jobEnv)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "client of a lock:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	l, err := locks[j.Lock](j)
	if err != nil {
		return err
	}
	log, err := openLedger(j.Log)
	if err != nil {
		return err
	}
	ctx, out, in := context.Background(), json.NewEncoder(os.Stdout), json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var d deed
		if in.Decode(&d) != nil {
			return nil // the test is over
		}
		var err error
		switch d.Do {
		case "acquire":
			if err = l.acquire(ctx); err == nil && l.token() > 0 {
				err = log.claim(ctx, l.token())
			}
			d.Yes = err == nil
		case "ask":
			d.Yes = l.leads()
		case "write":
			if !l.leads() {
				break
			}
			if d.Pause {
				zombie.Freeze()
			}
			err = log.write(ctx, l.token(), d.Value)
			d.Yes, d.Stale = err == nil, errors.Is(err, fence.ErrStale)
		}
		if err != nil {
			d.Error = err.Error()
		}
		if err := out.Encode(d); err != nil {
			return err
		}
	}
}

// client is a client's process, as the test has it.
type client struct {
	t    *testing.T
	id   string
	cmd  *exec.Cmd
	in   *json.Encoder
	done chan deed
}

func (j job) start(t *testing.T, id string) *client {
	t.Helper()
	j.ID = id
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, id: id, cmd: exec.Command(os.Args[0]), done: make(chan deed)}
	c.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said harness.Buffer
	c.cmd.Stderr = &said
	in, out := harness.Start(t, c.cmd)
	c.in = json.NewEncoder(in)
	over := make(chan struct{})
	var reads sync.WaitGroup
	reads.Go(func() {
		for from := json.NewDecoder(out); ; {
			var d deed
			if from.Decode(&d) != nil {
				return
			}
			select {
			case c.done <- d:
			case <-over:
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		_ = c.cmd.Process.Kill()
		reads.Wait()
		_ = c.cmd.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", id, said.String())
		}
	})
	return c
}

// begin tells the client what to do.
func (c *client) begin(d deed) {
	c.t.Helper()
	if err := c.in.Encode(d); err != nil {
		c.t.Fatalf("%s: %v", c.id, err)
	}
}

// does tells it, and waits until it is done.
func (c *client) does(d deed) deed {
	c.t.Helper()
	c.begin(d)
	return c.ends(time.Minute)
}

func (c *client) ends(within time.Duration) deed {
	c.t.Helper()
	select {
	case d := <-c.done:
		return d
	case <-time.After(within):
		c.t.Fatalf("%s has not done it within %v", c.id, within)
		return deed{}
	}
}

func (c *client) believes() bool { c.t.Helper(); return c.does(deed{Do: "ask"}).Yes }

// resume lets a stopped process go on.
func (c *client) resume() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
}
