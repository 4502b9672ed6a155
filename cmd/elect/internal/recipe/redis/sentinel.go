package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// spokenVersion is the version of Redis whose Sentinel's protocol is spoken.
const spokenVersion = "7.0.0"

// sentinel answers SENTINEL.
func (c *client) sentinel(verb string, args []string) any {
	e := c.of.e
	switch verb {
	case "MYID":
		return myID(e.cfg().Name, e.cfg().ID)
	case "MASTERS":
		return []any{e.masterFields()}
	case "ELECT-STATUS":
		text, err := json.Marshal(e.status())
		if err != nil {
			return replyError("ERR " + err.Error())
		}
		return string(text)
	case "IS-MASTER-DOWN-BY-ADDR":
		return []any{0, "*", 0} // electors ask each other in another way
	case "PENDING-SCRIPTS":
		return []any{}
	case "MONITOR", "REMOVE", "SET", "CONFIG", "RESET", "FLUSHCONFIG", "SIMULATE-FAILURE":
		return replyError("ERR the configuration file of elect recipe redis decides; want the change there, and a restart of this elector")
	}
	if len(args) == 0 {
		return replyError("ERR unknown subcommand '" + printable(verb) + "', or the name of the master is missing")
	}
	named := args[0] == e.cfg().Name
	switch verb {
	case "GET-MASTER-ADDR-BY-NAME":
		s := e.clientMaster()
		if !named || s == nil {
			return noArray{}
		}
		return []any{s.announce.Host, s.announce.port()}
	case "MASTER", "REPLICAS", "SLAVES", "SENTINELS", "CKQUORUM", "FAILOVER":
		if !named {
			return replyError("ERR No such master with that name")
		}
	}
	switch verb {
	case "MASTER":
		return e.masterFields()
	case "REPLICAS", "SLAVES":
		return e.replicaFields()
	case "SENTINELS":
		return e.electorFields()
	case "CKQUORUM":
		return e.checkQuorum()
	case "FAILOVER":
		if !c.trusted() {
			return replyError("NOPERM a failover is for clients with a password, or on this machine; want listen.password-file in the configuration")
		}
		to := ""
		if len(args) > 1 {
			to = args[1]
		}
		if err := e.failover(context.Background(), to, true); err != nil {
			return replyError("ERR " + err.Error())
		}
		return simple("OK")
	}
	return replyError("ERR unknown subcommand '" + printable(verb) + "'")
}

// trusted reports whether a client may change something.
func (c *client) trusted() bool {
	if c.of.password != "" {
		return c.known
	}
	host, _, _ := net.SplitHostPort(c.c.RemoteAddr().String())
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// myID is an id as Sentinel has them: 40 hexadecimal digits.
func myID(name, id string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + id))
	return hex.EncodeToString(sum[:20])
}

// clientMaster is the master that clients are told: the one that was announced. An elector that has not heard of an
// acting one for some time does not know whether there is a newer one. It is silent then, unless it sees itself that
// its master can take writes: others answer in its place.
func (e *Elector) clientMaster() *server {
	s := e.cfg().server(e.ledger.read().Announced.Master)
	if s == nil {
		return nil
	}
	if _, heard := e.ledger.lately(); time.Since(heard) < e.cfg().hearing() {
		return s
	}
	sight := e.watchers[s.id].sight()
	if sight.down(time.Now(), e.cfg().DownAfter) != Up || !sight.Info.Master || sight.Info.Good >= 0 && sight.Info.Good < e.cfg().ToWrite {
		return nil
	}
	return s
}

// hearing is how long the word of an acting elector holds.
func (c *Config) hearing() time.Duration { return max(5*time.Second, 3*c.DownAfter) }

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 0), 10) }

// fields are what MASTER and REPLICAS have in common.
func (e *Elector) fields(s *server, kind string, name string) pairs {
	sight := e.watchers[s.id].sight()
	now := time.Now()
	flags, role := []string{kind}, "slave"
	if sight.Info.Master {
		role = "master"
	}
	if sight.down(now, e.cfg().DownAfter) != Up {
		flags = append(flags, "s_down")
	}
	if sight.Fails > 0 {
		flags = append(flags, "disconnected")
	}
	ok := now.Sub(sight.OK)
	return pairs{
		{"name", name}, {"ip", s.announce.Host}, {"port", s.announce.port()}, {"runid", sight.Info.RunID},
		{"flags", strings.Join(flags, ",")}, {"link-pending-commands", "0"}, {"link-refcount", "1"},
		{"last-ping-sent", "0"}, {"last-ok-ping-reply", milliseconds(ok)}, {"last-ping-reply", milliseconds(ok)},
		{"down-after-milliseconds", milliseconds(e.cfg().DownAfter)}, {"info-refresh", milliseconds(now.Sub(sight.InfoAt))},
		{"role-reported", role}, {"role-reported-time", milliseconds(now.Sub(sight.InfoAt))},
	}
}

func (e *Elector) masterFields() any {
	d := e.ledger.read().Announced
	s := e.cfg().server(d.Master)
	if s == nil {
		return replyError("ERR there is no master yet")
	}
	return append(e.fields(s, "master", e.cfg().Name), pairs{
		{"config-epoch", strconv.FormatUint(d.Epoch, 10)}, {"num-slaves", strconv.Itoa(len(e.cfg().servers) - 1)},
		{"num-other-sentinels", strconv.Itoa(len(e.others))}, {"quorum", strconv.Itoa(e.cfg().Quorum)},
		{"failover-timeout", milliseconds(switchLimit)}, {"parallel-syncs", strconv.Itoa(len(e.cfg().servers))},
	}...)
}

func (e *Elector) replicaFields() any {
	d := e.ledger.read().Announced
	m := e.cfg().server(d.Master)
	all := []any{}
	for i := range e.cfg().servers {
		s := &e.cfg().servers[i]
		if m == nil || s.id == m.id {
			continue
		}
		sight := e.watchers[s.id].sight()
		link := "err"
		if sight.Info.Linked && sight.Info.Of == m.at {
			link = "ok"
		}
		all = append(all, append(e.fields(s, "slave", net.JoinHostPort(s.announce.Host, s.announce.port())), pairs{
			{"master-link-down-time", milliseconds(sight.Info.LinkDown)}, {"master-link-status", link},
			{"master-host", sight.Info.Of.Host}, {"master-port", sight.Info.Of.port()},
			{"slave-priority", strconv.Itoa(sight.Info.Priority)}, {"slave-repl-offset", strconv.FormatInt(sight.Info.Offset, 10)},
			{"replica-announced", "1"},
		}...))
	}
	return all
}

func (e *Elector) electorFields() any {
	all := []any{}
	for _, p := range e.others {
		host, port, _ := net.SplitHostPort(p.entry.Address)
		all = append(all, pairs{
			{"name", myID(e.cfg().Name, p.entry.ID)}, {"ip", host}, {"port", port}, {"runid", myID(e.cfg().Name, p.entry.ID)},
			{"flags", "sentinel"}, {"link-pending-commands", "0"}, {"link-refcount", "1"}, {"last-ping-sent", "0"},
			{"last-ok-ping-reply", "0"}, {"last-ping-reply", "0"}, {"down-after-milliseconds", milliseconds(e.cfg().DownAfter)},
			{"last-hello-message", "0"}, {"voted-leader", "?"}, {"voted-leader-epoch", "0"},
		})
	}
	return all
}

// reachable counts the electors that answer now, this one included.
func (e *Elector) reachable() int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	n := 1
	for _, p := range e.others {
		wg.Go(func() {
			once := p.with(p.limit)
			defer once.close()
			if _, err := once.ask(context.Background(), question{Op: opSee}); err == nil {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return n
}

func (e *Elector) checkQuorum() any {
	n, all := e.reachable(), len(e.cfg().Electors)
	if need := max(e.cfg().Quorum, majority(all)); n < need {
		return replyError(fmt.Sprintf("NOQUORUM %d usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master, or the majority: %d of %d", n, need, all))
	}
	return simple(fmt.Sprintf("OK %d usable Sentinels. Quorum and failover authorization can be reached", n))
}

// infoText is what INFO answers.
func (e *Elector) infoText() string {
	_, port, _ := net.SplitHostPort(e.listener.Addr().String())
	status, address := "ok", ""
	d := e.ledger.read().Announced
	if s := e.cfg().server(d.Master); s == nil {
		status = "unknown"
	} else {
		address = net.JoinHostPort(s.announce.Host, s.announce.port())
		sight := e.watchers[s.id].sight()
		if sight.down(time.Now(), e.cfg().DownAfter) != Up {
			status = "sdown"
		}
	}
	return strings.ReplaceAll(fmt.Sprintf(`# Server
redis_version:%s
redis_mode:sentinel
run_id:%s
tcp_port:%s

# Sentinel
sentinel_masters:1
sentinel_tilt:0
sentinel_running_scripts:0
sentinel_scripts_queue_length:0
sentinel_simulate_failure_flags:0
master0:name=%s,status=%s,address=%s,slaves=%d,sentinels=%d
`, spokenVersion, myID(e.cfg().Name, e.cfg().ID), port, e.cfg().Name, status, address, len(e.cfg().servers)-1, len(e.cfg().Electors)), "\n", "\r\n")
}

// Status is what an elector knows, as elect recipe redis status shows it. Fields are added, and never renamed or
// removed.
type Status struct {
	Name     string         `json:"name"`
	ID       string         `json:"id"`
	Master   string         `json:"master,omitempty"` // that clients are told
	Token    string         `json:"token,omitempty"`  // of the term in which that was decided
	Epoch    uint64         `json:"epoch"`
	Acting   string         `json:"acting,omitempty"`  // the elector that acts, as this one has last heard
	Waiting  string         `json:"waiting,omitempty"` // why this elector, which acts, does nothing
	Silent   bool           `json:"silent,omitempty"`  // this elector does not answer clients who the master is
	Electors int            `json:"electors"`
	Reached  int            `json:"electors_reached"`
	Servers  []ServerStatus `json:"servers"`
}

// ServerStatus is what an elector sees of a server.
type ServerStatus struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Role     string `json:"role"` // master, replica, or unknown of one that does not answer
	Down     string `json:"down,omitempty"`
	Link     bool   `json:"link"` // of a replica, to the master that clients are told
	Offset   int64  `json:"offset"`
	Priority int    `json:"priority,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (e *Elector) status() Status {
	d := e.ledger.read().Announced
	s := Status{Name: e.cfg().Name, ID: e.cfg().ID, Master: d.Master, Epoch: d.Epoch, Electors: len(e.cfg().Electors), Reached: e.reachable(), Silent: e.clientMaster() == nil}
	if d.Token > 0 {
		s.Token = d.Token.String()
	}
	if id, heard := e.ledger.lately(); time.Since(heard) < e.cfg().hearing() {
		s.Acting = id
	}
	e.mu.Lock()
	s.Waiting = e.waits
	e.mu.Unlock()
	m := e.cfg().server(d.Master)
	for i := range e.cfg().servers {
		of := &e.cfg().servers[i]
		sight := e.watchers[of.id].sight()
		v := ServerStatus{ID: of.id, Address: of.addr(), Role: "unknown", Down: string(sight.down(time.Now(), e.cfg().DownAfter)), Offset: sight.Info.Offset, Priority: sight.Info.Priority, Error: sight.Err}
		switch {
		case sight.InfoAt.IsZero(), v.Down == string(Gone), v.Down == string(Silent): // what it said last is no more so
		case sight.Info.Master:
			v.Role = "master"
		default:
			v.Role, v.Link = "replica", sight.Info.Linked && m != nil && sight.Info.Of == m.at
		}
		s.Servers = append(s.Servers, v)
	}
	return s
}
