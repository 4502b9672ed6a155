// Command worker is a client of a Redis master that it finds by Sentinel's protocol: it writes keys that no other
// client writes, and says on stdout which were acknowledged. Its lines are those of package redis.
//
//	worker write NAME SENTINELS MASTER    sets NAME:1, NAME:2, … until its input ends
//	worker keys ADDRESS                   lists all keys of a server
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// limit is how long an answer may take, and pause the time between two writes.
const (
	limit = 500 * time.Millisecond
	pause = 10 * time.Millisecond
)

// silence is a logger.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silence{})
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "write":
		return write(args[1], strings.Split(args[2], ","), args[3])
	case len(args) == 2 && args[0] == "keys":
		return keys(args[1])
	}
	return fmt.Errorf("%q; want write NAME SENTINELS MASTER, or keys ADDRESS", args)
}

func write(name string, sentinels []string, master string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var at atomic.Value // the address that was called last: that of the one connection
	at.Store("")
	var dial net.Dialer
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: master, SentinelAddrs: sentinels, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, PoolTimeout: limit,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if !strings.HasSuffix(addr, ":26379") {
				at.Store(addr)
			}
			return dial.DialContext(ctx, network, addr)
		},
	})
	defer client.Close()
	for n := 1; ctx.Err() == nil; n++ {
		key := name + ":" + strconv.Itoa(n)
		sent := time.Now()
		err := client.Set(ctx, key, n, 0).Err()
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		what, text := "ok", ""
		if err != nil {
			what, text = "no", strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Printf("%s %s %d %d %s %s\n", what, key, sent.UnixMicro(), now.UnixMicro(), at.Load(), text)
		time.Sleep(pause)
	}
	return nil
}

func keys(address string) error {
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	out := bufio.NewWriter(os.Stdout)
	ctx := context.Background()
	each := client.Scan(ctx, 0, "*", 10000).Iterator()
	for each.Next(ctx) {
		fmt.Fprintln(out, each.Val())
	}
	if err := each.Err(); err != nil {
		return err
	}
	return out.Flush()
}
