package server

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lib/pq"
)

// ask runs f in a goroutine, so that a server that hangs does not hang the caller: f goes on then until the server has
// resumed or is dead, and its result is dropped.
func ask[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("PostgreSQL does not answer: %w", context.Cause(ctx))
	}
}

// exec is ask for statements without a result.
func (s *Server) exec(ctx context.Context, query string, args ...any) error {
	_, err := ask(ctx, func(ctx context.Context) (struct{}, error) {
		_, err := s.db.ExecContext(ctx, query, args...)
		return struct{}{}, err
	})
	return err
}

// value is ask for one value.
func value[T any](ctx context.Context, s *Server, query string, args ...any) (T, error) {
	return ask(ctx, func(ctx context.Context) (v T, err error) {
		err = s.db.QueryRowContext(ctx, query, args...).Scan(&v)
		return v, err
	})
}

// ping is nil if the server accepts connections.
func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return s.exec(ctx, "SELECT 1")
}

// starting reports whether a server replays its own WAL, and will accept connections.
func starting(err error) bool {
	pe, ok := errors.AsType[*pq.Error](err)
	return ok && pe.Code == "57P03"
}

// inconsistent reports whether a server replays, and cannot accept connections before it has more WAL.
func inconsistent(err error) bool {
	pe, ok := errors.AsType[*pq.Error](err)
	return ok && pe.Code == "57P03" && strings.Contains(pe.Message, "not yet accepting connections")
}

// accepts reports whether the server runs and accepts connections.
func (s *Server) accepts(ctx context.Context) bool { return s.Running() && s.ping(ctx) == nil }

// Follow has a running standby follow another primary, durably.
func (s *Server) Follow(ctx context.Context, from Upstream) error {
	restart, err := s.foreign(from)
	if err != nil {
		return err
	}
	if len(restart) > 0 {
		stop, done := context.WithTimeout(ctx, reap)
		err := s.Stop(stop, Fast)
		if done(); err != nil {
			return err
		}
		return s.StartStandby(ctx, &from)
	}
	if err := s.serve(&from); err != nil {
		return err
	}
	return s.expel(ctx)
}

// Detach makes a server follow nobody, durably, and returns its Position when no walreceiver is left that could confirm
// anything. The same of a server that does not run.
func (s *Server) Detach(ctx context.Context) (Position, error) {
	if err := s.serve(nil); err != nil {
		return Position{}, err
	}
	if err := s.expel(ctx); err != nil {
		return Position{}, err
	}
	return s.Position(ctx)
}

// expel ends the walreceivers that there are. A later one reads who the primary is now. One that has read it before has
// its title since before that, and is seen here.
func (s *Server) expel(ctx context.Context) error {
	old := s.walreceivers()
	for tick := time.NewTicker(poll); len(old) > 0; {
		for _, pid := range old {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			_ = syscall.Kill(pid, syscall.SIGCONT) // one that somebody has stopped does not end otherwise
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the walreceiver, process %d, does not end: %w", old[0], context.Cause(ctx))
		}
		now := s.walreceivers()
		old = slices.DeleteFunc(old, func(pid int) bool { return !slices.Contains(now, pid) })
	}
	return nil
}

// walreceivers are the processes of this server that have that title. They have it before they connect.
func (s *Server) walreceivers() []int { return s.titled("postgres: ", "walreceiver") }

// titled are the processes of this server whose title has a prefix, and a word.
func (s *Server) titled(prefix, word string) []int {
	return slices.DeleteFunc(s.processes(), func(pid int) bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return !strings.HasPrefix(string(text), prefix) || !strings.Contains(string(text), word)
	})
}

// Promote ends the recovery of a running standby that follows nobody, for the term of a token: from the first instant
// its commits wait for standbys of that token. It returns when the server accepts writes.
func (s *Server) Promote(ctx context.Context, token uint64) (Position, error) {
	s.mu.Lock()
	s.token = token
	cfg := s.cfg
	s.mu.Unlock()
	if err := s.configure(cfg, token); err != nil {
		return Position{}, err
	}
	if err := s.reload(); err != nil {
		return Position{}, err
	}
	const patience = 500 * time.Millisecond // with readers that delay the replay
	begun, tick := time.Now(), time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := s.exec(ctx, "SELECT pg_promote(false)")
		if err == nil {
			break
		}
		if !starting(err) || ctx.Err() != nil {
			return Position{}, fmt.Errorf("promoting: %w", err)
		}
		<-tick.C // it still replays what it had when it crashed
	}
	for {
		in, err := value[bool](ctx, s, "SELECT pg_is_in_recovery()")
		switch {
		case err != nil:
			return Position{}, fmt.Errorf("promoting: %w", err)
		case !in:
			return s.Position(ctx)
		}
		if time.Since(begun) > patience {
			begun = time.Now()
			s.config().Logger.Warn("PostgreSQL still replays; its readers are disconnected, because a query can delay the replay")
			if err := s.exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'elect'"); err != nil {
				return Position{}, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Position{}, fmt.Errorf("PostgreSQL does not end its recovery: %w", context.Cause(ctx))
		}
	}
}

// Mark inserts the row of a term into elect.terms, if it is not there, and returns when k standbys have confirmed that:
// with it all that was written before is confirmed, too.
func (s *Server) Mark(ctx context.Context, token uint64, id string, timeline uint32) error {
	if token > math.MaxInt64 {
		return fmt.Errorf("the token is %d; want at most %d, the greatest bigint", token, int64(math.MaxInt64))
	}
	_, err := ask(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.mark(ctx, int64(token), id, int64(timeline))
	})
	return err
}

func (s *Server) mark(ctx context.Context, token int64, id string, timeline int64) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A commit whose wait for standbys was cancelled succeeds with a warning.
	var warned error
	handle := func(to func(*pq.Error)) error {
		return conn.Raw(func(c any) error { pq.SetNoticeHandler(c.(driver.Conn), to); return nil })
	}
	if err := handle(func(e *pq.Error) { warned = e }); err != nil {
		return err
	}
	defer func() { _ = handle(nil) }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// A row that is there is written again: a transaction that writes nothing waits for nobody.
	for _, do := range []struct {
		query string
		args  []any
	}{
		{"SET LOCAL synchronous_commit = on", nil},
		{`INSERT INTO elect.terms (token, id, timeline, at) VALUES ($1, $2, $3, clock_timestamp())
			ON CONFLICT (token) DO UPDATE SET token = excluded.token`, []any{token, id, timeline}},
	} {
		if _, err := tx.ExecContext(ctx, do.query, do.args...); err != nil {
			return err
		}
	}
	return errors.Join(tx.Commit(), warned)
}

// Slots makes the physical slots of those nodes and drops those that Slots has made for others. A slot whose WAL is gone,
// because its node was away for more than max_slot_wal_keep_size, is made anew: from version 18 on PostgreSQL refuses to
// stream by it.
func (s *Server) Slots(ctx context.Context, ids []string) error {
	want := make([]string, len(ids))
	for i, id := range ids {
		want[i] = SlotName(id)
	}
	if err := s.exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
		WHERE slot_type = 'physical' AND starts_with(slot_name, $1) AND NOT active AND (wal_status = 'lost' OR slot_name <> ALL ($2::text[]))`, slotPrefix, pq.Array(want)); err != nil {
		return err
	}
	return s.exec(ctx, `SELECT pg_create_physical_replication_slot(name, true) FROM unnest($1::text[]) AS name
		WHERE name NOT IN (SELECT slot_name FROM pg_replication_slots)`, pq.Array(want))
}

// Flushed is the LSN that a standby has on disk, as this primary knows it; 0 if it does not stream under the token of
// this primary.
func (s *Server) Flushed(ctx context.Context, id string) (uint64, error) {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	lsn, err := value[sql.NullString](ctx, s, "SELECT max(flush_lsn)::text FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming'", Name(id, token))
	if err != nil || !lsn.Valid {
		return 0, err
	}
	return parseLSN(lsn.String)
}

// Checkpoint makes one, so that a Fast stop is short.
func (s *Server) Checkpoint(ctx context.Context) error { return s.exec(ctx, "CHECKPOINT") }

// Probe is nil if the server answers, and its disk takes a synced write; a primary also if it commits, without waiting
// for standbys, and its commits of others wait for those that they should. What a superuser has set by ALTER SYSTEM, and
// users cannot set, it undoes, with a line in the log.
func (s *Server) Probe(ctx context.Context) error {
	s.mu.Lock()
	token, cfg := s.token, s.cfg
	s.mu.Unlock()
	if _, err := ask(ctx, func(context.Context) (struct{}, error) { return struct{}{}, s.probeDisk() }); err != nil {
		return fmt.Errorf("the disk of the data directory: %w", err)
	}
	if names, err := s.disarm(); err != nil || names != nil {
		cfg.Logger.Warn("ALTER SYSTEM has set what this program must set, or what would lose acknowledged commits; it was undone", "parameters", names, "error", err)
		if err := errors.Join(err, s.reload()); err != nil {
			return err
		}
	}
	if token == 0 {
		return s.exec(ctx, "SELECT 1")
	}
	names, err := value[string](ctx, s, `WITH probe AS (INSERT INTO elect.probe VALUES (true, clock_timestamp()) ON CONFLICT (one) DO UPDATE SET at = excluded.at RETURNING at)
		SELECT current_setting('synchronous_standby_names') FROM probe`)
	if err != nil {
		return err
	}
	if want := standbyNames(cfg, token); names != want {
		return fmt.Errorf("synchronous_standby_names is %s; want %s: somebody has changed it", names, want)
	}
	return nil
}

// probeDisk writes a new file, which needs blocks that are free.
func (s *Server) probeDisk() error {
	const size = 256 << 10
	path := filepath.Join(s.data, probeFile)
	defer os.Remove(path)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, size))
	return errors.Join(err, f.Sync(), f.Close())
}
