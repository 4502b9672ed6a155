package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/driver"
)

// examine asks the server what it is, and how the bucket is set.
func (b *bucket) examine(ctx context.Context) ([]driver.Finding, error) {
	asking, end := context.WithTimeout(ctx, 2*time.Second)
	info, err := b.info(asking)
	end()
	if err != nil && !b.IsConnected() {
		return nil, err
	}
	found := []driver.Finding{
		{What: "version", Value: "nats-server " + b.ConnectedServerVersion(), Means: "the server that this connection has reached"},
	}
	if err != nil {
		return append(found, driver.Finding{
			What: "leader of the bucket", Value: "no answer", Wrong: true, Means: "nobody can be elected; want a majority of the bucket's servers: " + err.Error(),
		}), nil
	}
	if info == nil {
		return append(found, driver.Finding{What: "bucket " + b.name, Value: "missing", Means: "the first campaign makes it"}), nil
	}
	return append(found, judged(b.name, info)...), nil
}

// judged says what the state of a bucket means.
func judged(name string, info *jetstream.StreamInfo) []driver.Finding {
	c := &info.Config
	set := driver.Finding{What: "bucket " + name, Value: "right", Means: "it is in files, and drops nothing by itself"}
	if err := unsafe(name, info); err != nil {
		set.Value, set.Wrong, set.Means = "refused", true, err.Error()
	}
	kept := driver.Finding{What: "replicas", Value: fmt.Sprint(c.Replicas), Means: "while its server is down, nobody can lead"}
	if c.Replicas > 1 {
		kept.Means = fmt.Sprintf("the bucket answers while %d of %d servers do", c.Replicas/2+1, c.Replicas)
	}
	found := []driver.Finding{set, kept}
	if in := info.Cluster; in != nil && c.Replicas > 1 {
		f := driver.Finding{What: "leader of the bucket", Value: in.Leader, Means: "all its other servers follow"}
		behind := 0
		for _, r := range in.Replicas {
			if r.Offline || !r.Current {
				behind++
			}
		}
		if behind > 0 {
			f.Means = fmt.Sprintf("%d of its %d servers do not follow", behind, c.Replicas)
		}
		if in.Leader == "" {
			f.Value, f.Wrong, f.Means = "none", true, "no write is possible; want a majority of its servers"
		}
		found = append(found, f)
	}
	return append(found,
		driver.Finding{What: "made", Value: info.Created.UTC().Format(time.RFC3339), Means: "after it is made again revisions begin anew: leases stay exclusive, tokens may repeat; raise era then"},
		driver.Finding{What: "sync_interval", Value: "not told", Means: "a server that loses its power loses what it has acknowledged since its last sync, two minutes by default, and nothing shows that: set sync_interval: always, or have replicas that do not lose power together, and raise era after such a loss"},
	)
}
