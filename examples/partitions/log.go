package main

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// record is one record of a partition.
type record struct {
	Offset   int64  `json:"offset"` // from 0, without gaps
	Epoch    int64  `json:"epoch"`  // the token of the leader that appended it; never less than that of the record before
	Producer string `json:"producer"`
	Seq      int64  `json:"seq"` // of the producer in the partition: a record that is sent again is found by it
	Body     string `json:"body"`
}

// resource is what guards a partition. Each has a mark of its own, as each has epochs of its own.
func resource(topic, partition string) fence.Resource {
	return fence.Resource(topic + "/" + partition)
}

func install(ctx context.Context, db *sql.DB, topic string, partitions int) error {
	for i := range partitions {
		guard, err := fencesql.New(db, fencesql.PostgreSQL, resource(topic, strconv.Itoa(i)), fencesql.Config{})
		if err != nil {
			return err
		}
		if err := guard.Install(ctx); err != nil {
			return err
		}
	}
	_, err := db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS records (
			topic text, partition text, "offset" bigint, PRIMARY KEY (topic, partition, "offset"),
			epoch bigint NOT NULL, producer text NOT NULL, seq bigint NOT NULL, body text NOT NULL,
			UNIQUE (topic, partition, producer, seq))`)
	return err
}

// appendAll appends records behind end, with their epoch and offsets, in one transaction that begins with the check of
// the epoch. A record that is in the log already keeps its place. It returns the new end.
func (p *partition) appendAll(ctx context.Context, end int64, records []*record) (int64, error) {
	err := p.guard.Write(ctx, p.epoch, nil, func(tx *sql.Tx) error {
		for _, r := range records {
			err := tx.QueryRowContext(ctx, `SELECT "offset", epoch FROM records WHERE topic = $1 AND partition = $2 AND producer = $3 AND seq = $4`,
				p.topic, p.name, r.Producer, r.Seq).Scan(&r.Offset, &r.Epoch)
			if err == nil {
				continue
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			r.Offset, r.Epoch = end, int64(p.epoch)
			if _, err := tx.ExecContext(ctx, `INSERT INTO records (topic, partition, "offset", epoch, producer, seq, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				p.topic, p.name, r.Offset, r.Epoch, r.Producer, r.Seq, r.Body); err != nil {
				return err
			}
			end++
		}
		return nil
	})
	return end, err
}

// end is the offset of the next record. A leader asks for it after its claim: from then on nobody else appends.
func (p *partition) end(ctx context.Context) (end int64, err error) {
	err = p.db.QueryRowContext(ctx, `SELECT coalesce(max("offset") + 1, 0) FROM records WHERE topic = $1 AND partition = $2`, p.topic, p.name).Scan(&end)
	return end, err
}

// read returns records of a partition from an offset on.
func read(ctx context.Context, db *sql.DB, topic, partition string, from int64) ([]record, error) {
	rows, err := db.QueryContext(ctx, `SELECT "offset", epoch, producer, seq, body FROM records WHERE topic = $1 AND partition = $2 AND "offset" >= $3 ORDER BY "offset" LIMIT 500`,
		topic, partition, from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []record{}
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.Offset, &r.Epoch, &r.Producer, &r.Seq, &r.Body); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}
