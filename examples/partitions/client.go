package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is how long a client waits for one answer: a broker may be frozen.
const patience = time.Second

// produce appends records to all partitions until ctx ends, each after the one before it is acknowledged, and prints a
// line for each acknowledgement: the partition and the record.
func (s *settings) produce(ctx context.Context) error {
	if s.id == "" || len(s.brokers) == 0 {
		return errors.New("a producer wants -id and -brokers")
	}
	return s.each(func(name string) error {
		leader := "" // as far as is known
		for seq := int64(0); ; seq++ {
			for {
				r, next, err := s.post(ctx, leader, name, seq)
				leader = next
				if err == nil {
					s.print(name, r)
					break
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				pause(ctx, 20*time.Millisecond)
			}
			pause(ctx, s.every)
		}
	})
}

// post sends one record to the leader, or to any broker if that is not known, and returns who leads.
func (s *settings) post(ctx context.Context, leader, name string, seq int64) (r record, next string, err error) {
	q := url.Values{"producer": {s.id}, "seq": {strconv.FormatInt(seq, 10)}}
	next, err = s.ask(ctx, http.MethodPost, leader, name, q, fmt.Sprintf("%s %s %d", s.id, name, seq), &r)
	return r, next, err
}

// ask sends a request to a broker, the one called id or any, and decodes the answer. It returns whom to ask next, or ""
// if that is not known.
func (s *settings) ask(ctx context.Context, method, id, name string, q url.Values, body string, into any) (next string, err error) {
	if s.brokers[id] == "" {
		ids := slices.Collect(maps.Keys(s.brokers))
		id = ids[rand.IntN(len(ids))]
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.brokers[id]+"/partitions/"+name+"?"+q.Encode(), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return answer.Header.Get("Leader"), errors.New(answer.Status)
	}
	return id, json.NewDecoder(answer.Body).Decode(into)
}

// consume prints all records of all partitions, and then those that come, until ctx ends. It fails if offsets have a gap
// or an epoch is less than the one before.
func (s *settings) consume(ctx context.Context) error {
	if len(s.brokers) == 0 {
		return errors.New("a consumer wants -brokers")
	}
	return s.each(func(name string) error {
		last := record{Offset: -1}
		for ctx.Err() == nil {
			var all []record
			_, err := s.ask(ctx, http.MethodGet, "", name, url.Values{"from": {strconv.FormatInt(last.Offset+1, 10)}}, "", &all)
			if err != nil || len(all) == 0 {
				pause(ctx, 20*time.Millisecond)
				continue
			}
			for _, r := range all {
				if r.Offset != last.Offset+1 || r.Epoch < last.Epoch {
					return fmt.Errorf("partition %s has %+v after %+v", name, r, last)
				}
				last = r
				s.print(name, r)
			}
		}
		return ctx.Err()
	})
}

// each runs work for each partition, at once, and returns the first error.
func (s *settings) each(work func(name string) error) error {
	failed := make(chan error, s.partitions)
	var all sync.WaitGroup
	for i := range s.partitions {
		all.Go(func() { failed <- work(strconv.Itoa(i)) })
	}
	err := <-failed
	if errors.Is(err, context.Canceled) {
		all.Wait()
	}
	return err
}

// print prints a record with its partition, as one write.
func (s *settings) print(name string, r record) {
	line, err := json.Marshal(struct {
		Partition string `json:"partition"`
		record
	}{name, r})
	if err == nil {
		fmt.Println(string(line))
	}
}
