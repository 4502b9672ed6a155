//go:build linux && cgo

package leases_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/store/sqlstore"
)

// loss loses one answer of one participant.
type loss struct{ armed atomic.Bool }

var errLost = errors.New("the answer was lost")

// of returns err, and errLost instead if an answer is to be lost.
func (l *loss) of(err error) error {
	if err == nil && l.armed.CompareAndSwap(true, false) {
		return errLost
	}
	return err
}

// connector makes connections that lose answers to writes.
type connector struct {
	of   sqldriver.Driver
	name string
	loss *loss
}

func (c *connector) Driver() sqldriver.Driver { return c.of }

func (c *connector) Connect(context.Context) (sqldriver.Conn, error) {
	inner, err := c.of.Open(c.name)
	if err != nil {
		return nil, err
	}
	return &conn{inner.(inside), c.loss}, nil
}

// inside is what all drivers of these tests have.
type inside interface {
	sqldriver.Conn
	sqldriver.ConnPrepareContext
	sqldriver.ConnBeginTx
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.Pinger
}

type conn struct {
	inside
	loss *loss
}

func writes(query string) bool {
	return strings.HasPrefix(query, "INSERT") || strings.HasPrefix(query, "UPDATE")
}

func (c *conn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	r, err := c.inside.ExecContext(ctx, query, args)
	if writes(query) {
		err = c.loss.of(err)
	}
	return r, err
}

// QueryContext is what PostgreSQL's writes are. They are over when all rows were read.
func (c *conn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	rows, err := c.inside.QueryContext(ctx, query, args)
	if err != nil || !writes(query) || !c.loss.armed.Load() {
		return rows, err
	}
	for err == nil {
		err = rows.Next(make([]sqldriver.Value, len(rows.Columns())))
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return nil, c.loss.of(errors.Join(err, rows.Close()))
}

// machine is what a machine has of an elector: its requests, made in a turn. An elector does not
// show that to its users, so it is taken out of its fields.
type machine struct {
	store interface {
		Ask(protocol.Ask, func(protocol.Answer))
	}
	runner interface{ Call(func()) bool }
	number *atomic.Uint64
}

func machineOf(e driver.Elector) machine {
	m := machine{number: &atomic.Uint64{}}
	m.store = e.(interface {
		Ask(protocol.Ask, func(protocol.Answer))
	})
	m.runner = reflect.ValueOf(e).Elem().FieldByName("Run").Interface().(interface{ Call(func()) bool })
	m.number.Store(1 << 32) // far from the numbers of the machine
	return m
}

func (m *machine) ask(a protocol.Ask) func() protocol.Answer {
	a.Number = m.number.Add(1)
	answer := make(chan protocol.Answer, 1)
	m.runner.Call(func() { m.store.Ask(a, func(a protocol.Answer) { answer <- a }) })
	return func() protocol.Answer { return <-answer }
}

// agrees runs the cases. open opens the participants of one that has a place of its own; delete is
// that of [storetest.Store].
func agrees(t *testing.T, cases []storetest.Case, open func(t *testing.T) (participant func(id string, l *loss) driver.Elector, remove func(protocol.Entry))) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			participant, remove := open(t)
			var all [storetest.Participants]machine
			var losses [storetest.Participants]loss
			for i := range all {
				e := participant(fmt.Sprintf("n%d", i+1), &losses[i])
				all[i] = machineOf(e)
				t.Cleanup(func() {
					if err := e.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			c.Run(t, storetest.Store{
				Ask:    func(by int, a protocol.Ask) func() protocol.Answer { return all[by].ask(a) },
				Lose:   func(by int) { losses[by].armed.Store(true) },
				Delete: remove,
				Wait:   func() { <-time.After(100 * time.Millisecond) },
			})
		})
	}
}

// TestAgreement: the databases answer as the simulator's register does.
func TestAgreement(t *testing.T) {
	t.Parallel()
	for name, start := range databases(t) {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			agrees(t, storetest.Register, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
				p := d.place(t)
				source, place := p.source()
				known, err := sql.Open(source, place)
				if err != nil {
					t.Fatal(err)
				}
				defer known.Close()
				participant := func(id string, l *loss) driver.Elector {
					db := sql.OpenDB(&connector{known.Driver(), place, l})
					t.Cleanup(func() { _ = db.Close() })
					e, err := sqlstore.New(t.Context(), db, p.dialect, "e", id, sqlstore.Config{Lease: time.Hour, MaxLease: time.Hour})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				return participant, func(protocol.Entry) { p.exec(t, "DELETE FROM "+sqlstore.DefaultTable) }
			})
		})
	}
}

// TestEtcdAgreement: etcd answers as the simulator's does.
func TestEtcdAgreement(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; databases are asked by a table of the same kind")
	e := startEtcd(t)
	agrees(t, storetest.Queue, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		k := newKeys(t, e)
		participant := func(id string, l *loss) driver.Elector {
			lose := func(ctx context.Context, method string, in, out any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return l.of(invoke(ctx, method, in, out, c, opts...))
			}
			client, err := clientv3.New(clientv3.Config{
				Endpoints: []string{e.URL}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(lose)},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			p, err := etcd.New(t.Context(), client, "e", id, etcd.Config{Key: k.prefix + "/e", Lease: 5 * time.Minute, MaxHold: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		return participant, func(entry protocol.Entry) {
			if _, err := k.client.Delete(t.Context(), fmt.Sprintf("%s/e/%x", k.prefix, entry.Session)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
