package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/group"
)

// broker is one process: a member of the group, and an HTTP server for producers and consumers.
type broker struct {
	db    *sql.DB
	group *group.Group
	topic string
	log   *slog.Logger

	mu    sync.Mutex
	leads map[string]*partition // those that it leads
}

// partition is one partition while this broker leads it.
type partition struct {
	db          *sql.DB
	guard       *fencesql.Guard
	topic, name string
	epoch       fence.Token
	queue       chan entry
	over        <-chan struct{} // it is led no more
}

// entry is a record that a producer waits for.
type entry struct {
	record *record
	done   chan error // has room for one
}

// batch is how many records one transaction appends at most.
const batch = 100

// run leads what the group gives this broker, and serves, until ctx ends.
func (b *broker) run(ctx context.Context, addr string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /partitions/{partition}", b.append)
	mux.HandleFunc("GET /partitions/{partition}", b.records)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("nothing is served any more", "error", err)
		}
	})
	err = b.group.Run(ctx, b.lead)
	_ = server.Close() // what still waits is tried again elsewhere
	serving.Wait()
	return err
}

// lead leads one partition: it claims, asks where the log ends, and appends.
func (b *broker) lead(ctx context.Context, s *group.Shard) error {
	// A leader that is frozen in the midst of a transaction holds the mark. Terminate ends its connection.
	guard, err := fencesql.New(b.db, fencesql.PostgreSQL, resource(b.topic, s.Key()), fencesql.Config{LockTimeout: 2 * time.Second, Terminate: true, Logger: b.log})
	if err != nil {
		return err
	}
	p := &partition{db: b.db, guard: guard, topic: b.topic, name: s.Key(), epoch: s.Token(), queue: make(chan entry), over: ctx.Done()}
	var end int64
	again := func() error {
		err := guard.Claim(ctx, p.epoch)
		if err == nil {
			end, err = p.end(ctx)
		}
		return err
	}
	for claimed := false; ctx.Err() == nil; {
		if !claimed {
			if err := again(); errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrResource) {
				return err
			} else if err != nil {
				b.log.Warn("the partition is not claimed", "partition", p.name, "epoch", p.epoch, "error", err)
				pause(ctx, 100*time.Millisecond)
				continue
			}
			claimed = true
			b.log.Info("leads", "partition", p.name, "epoch", p.epoch, "end", end)
			b.set(p.name, p)
			defer b.set(p.name, nil)
		}
		select {
		case <-ctx.Done():
		case first := <-p.queue:
			var err error
			if end, err = p.serve(ctx, end, first); errors.Is(err, fence.ErrStale) {
				return err // somebody else has claimed
			} else if err != nil {
				b.log.Warn("nothing was appended", "partition", p.name, "epoch", p.epoch, "error", err)
				claimed = false // ask anew where the log ends
			}
		}
	}
	return nil
}

// serve appends what waits, and tells the producers.
func (p *partition) serve(ctx context.Context, end int64, first entry) (int64, error) {
	all, records := []entry{first}, []*record{first.record}
	for more := true; more && len(all) < batch; {
		select {
		case e := <-p.queue:
			all, records = append(all, e), append(records, e.record)
		default:
			more = false
		}
	}
	next, err := p.appendAll(ctx, end, records)
	for _, e := range all {
		e.done <- err
	}
	if err != nil {
		return end, err
	}
	return next, nil
}

// set says what the broker leads: nothing, if p is nil.
func (b *broker) set(name string, p *partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == nil {
		delete(b.leads, name)
		return
	}
	b.leads[name] = p
}

// append takes a record from a producer. It answers 200 with the record when it is in the log, 421 with the leader's id
// in the header Leader if that is another broker, and 503 if it does not know what has become of it: the producer sends
// it again with the same number.
func (b *broker) append(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("partition")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	seq, err2 := strconv.ParseInt(r.URL.Query().Get("seq"), 10, 64)
	producer := r.URL.Query().Get("producer")
	if err := errors.Join(err, err2); err != nil || producer == "" {
		http.Error(w, fmt.Sprintf("want producer=NAME and seq=NUMBER, and at most 1 MB: %v", err), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	p := b.leads[name]
	b.mu.Unlock()
	if p == nil {
		b.redirect(w, r, name)
		return
	}
	e := entry{&record{Producer: producer, Seq: seq, Body: string(body)}, make(chan error, 1)}
	select {
	case p.queue <- e:
	case <-p.over:
		b.redirect(w, r, name)
		return
	case <-r.Context().Done():
		return
	}
	if err := <-e.done; err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(e.record) // the producer sends it again if this is lost
}

// redirect tells who leads a partition.
func (b *broker) redirect(w http.ResponseWriter, r *http.Request, name string) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if l, err := b.group.Lookup(ctx, name); err == nil {
		w.Header().Set("Leader", l.ID)
	}
	http.Error(w, "another broker leads this partition, or none", http.StatusMisdirectedRequest)
}

// records answers with records of a partition. Any broker can: what is in the log stays.
func (b *broker) records(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if err != nil {
		http.Error(w, "want from=OFFSET", http.StatusBadRequest)
		return
	}
	all, err := read(r.Context(), b.db, b.topic, r.PathValue("partition"), from)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(all) // the consumer asks again if this is lost
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
