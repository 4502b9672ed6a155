package redis

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/mutation"
)

const (
	ordersName   = "elect-orders-" // and the token: the name of an acting elector's connections
	rewriteNeeds = "CONFIG REWRITE failed, so that the settings that fence an old master are lost when it restarts; want a server that was started with a configuration file that it may write"
)

// nowhere is where a server that is taken away from its master looks for another one, in vain.
func nowhere() Address { return Address{"127.0.0.1", 1} }

// order is query for requests that change the server. An error among the replies is its error.
func (a *actor) order(id string, requests ...[]string) error {
	replies, err := a.query(id, requests...)
	a.mu.Lock()
	a.touched[id] = time.Now()
	a.mu.Unlock()
	if err != nil {
		return err
	}
	return failed(id, replies)
}

// query sends requests to a server in one go, while this elector leads. The connection was made before the lease is
// checked: so it is either closed by a newer acting elector, or used before that one's term.
func (a *actor) query(id string, requests ...[]string) ([]any, error) {
	for again := false; ; again = true {
		c, made, err := a.connection(id)
		if err != nil {
			return nil, err
		}
		if err := a.check(); err != nil {
			return nil, err
		}
		replies, err := c.do(a.e.cfg().patience(), requests...)
		if err == nil {
			return replies, nil
		}
		a.mu.Lock()
		delete(a.orders, id)
		a.mu.Unlock()
		_ = c.Close()
		// A connection from before may be that to an earlier life of the server. All requests may be sent twice.
		if made || again || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
}

// connection returns the connection for orders to a server, and whether it was made just now. Then those of older acting
// electors were closed.
func (a *actor) connection(id string) (c *conn, made bool, err error) {
	a.mu.Lock()
	c = a.orders[id]
	a.mu.Unlock()
	if c != nil {
		return c, false, nil
	}
	s := a.e.cfg().server(id)
	limit := a.e.cfg().patience()
	c, err = a.e.servers.open(a.ctx, s.addr(), ordersName+strconv.FormatUint(uint64(a.token), 10), limit)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", id, err)
	}
	v, err := c.one(limit, "CLIENT", "LIST", "TYPE", "normal")
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("%s: CLIENT LIST: %w", id, err), c.Close())
	}
	list, _ := v.(string)
	old, named, newer := olderActors(list, a.token)
	switch {
	case !named: // the next acting elector could not close it
		return nil, false, errors.Join(fmt.Errorf("%s: CLIENT LIST does not show the name of this connection; want the right to CLIENT SETNAME", id), c.Close())
	case newer:
		return nil, false, errors.Join(fmt.Errorf("%s: a newer acting elector is connected; want that one to act", id), c.Close())
	}
	if mutation.Is(mutation.OldOrders) {
		old = nil
	}
	for _, client := range old {
		if _, err := c.one(limit, "CLIENT", "KILL", "ID", client); err != nil {
			return nil, false, errors.Join(fmt.Errorf("%s: CLIENT KILL: %w", id, err), c.Close())
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orders[id] = c
	return c, true, nil
}

// olderActors finds, in CLIENT LIST, the connections of acting electors with smaller tokens, and whether there is one
// with this token, and one with a greater token.
func olderActors(list string, token elect.Token) (ids []string, named, newer bool) {
	for line := range strings.SplitSeq(list, "\n") {
		id, name := "", ""
		for field := range strings.FieldsSeq(line) {
			if v, ok := strings.CutPrefix(field, "id="); ok {
				id = v
			} else if v, ok := strings.CutPrefix(field, "name="+ordersName); ok {
				name = v
			}
		}
		n, err := strconv.ParseUint(name, 10, 64)
		switch {
		case err != nil:
		case elect.Token(n) < token:
			ids = append(ids, id)
		case elect.Token(n) > token:
			newer = true
		default:
			named = true
		}
	}
	return ids, named, newer
}

// info asks a server for its state, over the connection for orders.
func (a *actor) info(id string) (Info, error) {
	replies, err := a.query(id, []string{"INFO", "server"}, []string{"INFO", "replication"}, []string{"INFO", "keyspace"})
	if err != nil {
		return Info{}, err
	}
	var text strings.Builder
	for _, r := range replies {
		s, ok := r.(string)
		if !ok {
			return Info{}, fmt.Errorf("%s: INFO: %v", id, r)
		}
		text.WriteString(s + "\n")
	}
	return parseInfo(text.String()), nil
}

// each does something at several servers at once, and returns those at which it succeeded.
func (a *actor) each(ids []string, do func(id string) error) (done []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			if err := do(id); err != nil {
				a.log("an order has failed", "server", id, "error", err)
				return
			}
			mu.Lock()
			done = append(done, id)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(done)
	return done
}

// failed is the first error among replies.
func failed(id string, replies []any) error {
	for _, r := range replies {
		switch r := r.(type) {
		case replyError:
			return fmt.Errorf("%s: %w", id, r)
		case []any:
			if err := failed(id, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow makes a server the replica of the master, and closes its clients' connections if it was a master, in one
// transaction: none of them can write in between.
func (a *actor) follow(id string, kill bool) error {
	m := a.e.cfg().server(a.decision.Master)
	return a.replicate(id, m.at, kill)
}

func (a *actor) replicate(id string, of Address, kill bool) error {
	requests := [][]string{{"MULTI"}, {"REPLICAOF", of.Host, of.port()}}
	if kill {
		requests = append(requests, []string{"CLIENT", "KILL", "TYPE", "normal"}, []string{"CLIENT", "KILL", "TYPE", "pubsub"})
	}
	if err := a.order(id, append(requests, []string{"EXEC"})...); err != nil {
		return err
	}
	if of != nowhere() {
		a.rewrite(id)
	}
	return nil
}

// configure gives a server the settings of this recipe.
func (a *actor) configure(id string) error {
	i, err := a.info(id)
	if err != nil {
		return err
	}
	settings := [][2]string{
		{"min-replicas-max-lag", strconv.Itoa(a.e.cfg().MaxLag)},
		{"min-replicas-to-write", strconv.Itoa(a.e.cfg().ToWrite)},
		{"replica-read-only", "yes"},
	}
	if mutation.Is(mutation.NoFence) {
		settings = settings[2:]
	}
	if a.e.masterAs[1] != "" {
		settings = append(settings, [2]string{"masteruser", a.e.masterAs[0]}, [2]string{"masterauth", a.e.masterAs[1]})
	}
	var requests [][]string
	for _, s := range settings {
		requests = append(requests, []string{"CONFIG", "SET", s[0], s[1]})
	}
	if err := a.order(id, requests...); err != nil {
		return err
	}
	a.rewrite(id)
	a.set[i.RunID] = true
	return nil
}

// rewrite has a server keep its settings for its next life, if it can.
func (a *actor) rewrite(id string) {
	if err := a.order(id, []string{"CONFIG", "REWRITE"}); err != nil {
		a.e.once(id+rewriteNeeds, func() { a.e.log.Warn(rewriteNeeds, "server", id, "error", err) })
	}
}
