//go:build linux

package postgres

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
)

// insert is one row that a client wanted to insert, in its order. Times are of the monotonic clock since the start of
// the clients' process, which the caller knows.
type insert struct {
	Client, N    int
	Begun, Ended int64 // in nanoseconds of the clock of the machine
	Acknowledged bool
	Token, Seq   int64  // of an acknowledged row
	Err          string `json:",omitempty"`
}

const clientsEnv = "ELECT_CHAOS_POSTGRES_CLIENTS" // DIR: this process is the clients

func TestMain(m *testing.M) {
	if dir := os.Getenv(clientsEnv); dir != "" {
		clients(dir, os.Getenv("DSN"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// How many clients there are, and how long one waits for an answer. A client that gives up closes its connection: it
// does not cancel, because PostgreSQL answers a commit whose wait was cancelled with success.
const (
	clientCount = 4
	giveUp      = 4 * time.Second
	between     = 10 * time.Millisecond
)

// clients inserts until stdin ends.
func clients(dir, dsn string) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	var all sync.WaitGroup
	for c := range clientCount {
		all.Go(func() { client(ctx, c, filepath.Join(dir, fmt.Sprintf("client%d", c)), dsn) })
	}
	all.Wait()
}

// line dials, and remembers the connections so that they can be closed.
type line struct {
	mu   sync.Mutex
	last net.Conn
}

func (l *line) Dial(network, address string) (net.Conn, error) {
	return l.DialTimeout(network, address, time.Second)
}

func (l *line) DialTimeout(network, address string, limit time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, limit)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last = c
	}
	return c, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		_ = l.last.Close()
	}
}

func client(ctx context.Context, c int, path, dsn string) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		panic(err)
	}
	l := &line{}
	connector.Dialer(l)
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for n := 1; ctx.Err() == nil; n++ {
		i := insert{Client: c, N: n, Begun: time.Now().UnixNano()}
		late := time.AfterFunc(giveUp, l.cut)
		// The highest token is read before the row is written, in one snapshot.
		err := db.QueryRow("INSERT INTO rows (client, n, token) SELECT $1, $2, max(token) FROM elect.terms RETURNING token, seq", c, n).Scan(&i.Token, &i.Seq)
		late.Stop()
		i.Ended, i.Acknowledged = time.Now().UnixNano(), err == nil
		if err != nil {
			i.Err = err.Error()
		}
		text, _ := json.Marshal(i)
		if _, err := f.Write(append(text, '\n')); err != nil {
			panic(err)
		}
		<-time.After(between)
	}
}

// inserts reads what the clients have written down.
func inserts(t *testing.T, dir string) (all []insert) {
	t.Helper()
	for c := range clientCount {
		f, err := os.Open(filepath.Join(dir, fmt.Sprintf("client%d", c)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var i insert
			if json.Unmarshal(lines.Bytes(), &i) == nil { // the last line may be incomplete
				all = append(all, i)
			}
		}
	}
	return all
}
