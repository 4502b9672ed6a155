package redis

import (
	"strconv"
	"strings"
	"time"
)

// Info is what INFO says of a server.
type Info struct {
	Version string
	RunID   string
	Master  bool // its role
	Keys    bool // it has some
	Hz      int  // how often a second its timer runs

	// ReplID and Offset are its place in a history of writes: servers with one ReplID have one history. Its writes up
	// to Until are those of the history Previous, too.
	ReplID, Previous string
	Offset, Until    int64

	// Of a replica.
	Of       Address // its master
	Linked   bool
	LinkDown time.Duration
	Syncing  bool
	Priority int // the smallest is promoted first; 0 is never promoted

	// Of a master.
	Replicas  int            // that are connected
	listed    map[string]int // their addresses, as in INFO, and how many connections of each have had a word lately
	Good      int            // of them with a small lag; -1: it does not count them, because min-replicas-to-write is 0
	Switching string         // the state of FAILOVER
}

// Address is a host and a port as Redis has them.
type Address struct {
	Host string
	Port int
}

func (a Address) port() string { return strconv.Itoa(a.Port) }

// deadLag is after how many seconds without a word a connection counts only if there is no other one of its address.
const deadLag = 10

// lists reports whether a master shows a replica with an address.
func (i *Info) lists(a Address) bool {
	_, ok := i.listed["ip="+a.Host+",port="+a.port()]
	return ok
}

// parseInfo reads the sections server, replication and keyspace of INFO. What is missing is zero.
func parseInfo(text string) Info {
	f, listed := map[string]string{}, map[string]int{}
	i := Info{Good: -1}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if !ok {
			continue
		}
		f[key] = value
		if strings.HasPrefix(key, "db") && strings.HasPrefix(value, "keys=") {
			i.Keys = true
		}
		if n, is := strings.CutPrefix(key, "slave"); is && strings.HasPrefix(value, "ip=") && strings.Trim(n, "0123456789") == "" {
			address, more, _ := strings.Cut(value, ",state=")
			_, lag, _ := strings.Cut(more, "lag=")
			alive := 0
			if n, _ := strconv.Atoi(lag); n < deadLag {
				alive = 1
			}
			listed[address] += alive
		}
	}
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(f[key], 10, 64)
		return n
	}
	i.Hz = int(number("hz"))
	i.Version, i.RunID, i.Master = f["redis_version"], f["run_id"], f["role"] == "master"
	i.ReplID, i.Previous = f["master_replid"], f["master_replid2"]
	i.Offset, i.Until = number("master_repl_offset"), number("second_repl_offset")-1
	if strings.Trim(i.Previous, "0") == "" {
		i.Previous, i.Until = "", 0
	}
	if i.Master {
		i.listed, i.Switching = listed, f["master_failover_state"]
		for _, alive := range listed {
			i.Replicas += max(alive, 1)
		}
		if n, err := strconv.Atoi(f["min_slaves_good_slaves"]); err == nil {
			i.Good = n
		}
		return i
	}
	i.Offset = number("slave_repl_offset")
	i.Of = Address{f["master_host"], int(number("master_port"))}
	i.Linked, i.Syncing = f["master_link_status"] == "up", number("master_sync_in_progress") != 0
	i.LinkDown = time.Duration(max(number("master_link_down_since_seconds"), 0)) * time.Second
	i.Priority = int(number("slave_priority"))
	return i
}

// atLeast reports whether the server's version is at least this.
func (i *Info) atLeast(major, minor int) bool {
	parts := strings.SplitN(i.Version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, _ := strconv.Atoi(parts[0])
	b, _ := strconv.Atoi(parts[1])
	return a > major || a == major && b >= minor
}
