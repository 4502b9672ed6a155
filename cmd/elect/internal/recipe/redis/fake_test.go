package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

// fakeRedis is a server of Redis as far as electors know it, on pipes.
type fakeRedis struct {
	world *fakeWorld
	id    string
	at    Address

	// Guarded by world.mu.
	life     int // 0: it is down
	lives    int
	master   bool
	of       Address
	replID   string
	previous string
	until    int64
	offset   int64
	priority int
	toWrite  int // of its settings
	conns    map[net.Conn]string
	next     int
	promoted []time.Time
	taken    []time.Time // from its master
	syncing  bool
	unlinked int // how often its replicas' links were closed

	waiting   bool // for a copy that its master has not begun
	outsiders int  // replicas that are no servers of this world
	nameless  bool // it refuses CLIENT SETNAME
}

// fakeWorld are servers and electors in one process, in fake time.
type fakeWorld struct {
	t        *testing.T
	store    *memory.Store
	mu       sync.Mutex
	thaw     chan struct{} // closed and made anew when something changes
	servers  map[string]*fakeRedis
	electors map[string]*fakeElector
	cut      map[[2]string]bool // from an elector to an address
}

// fakeElector is one elector, which can be started again.
type fakeElector struct {
	id      string
	cfg     *Config
	elector *memory.Elector
	e       *Elector
	conns   chan net.Conn
	stop    context.CancelFunc
	done    chan struct{}
}

const fakeText = `
name: mymaster
election: memory:x
id: %s
state: %s
secret-file: %s
down-after: 1s
electors: [{id: e1, address: 'e1:1'}, {id: e2, address: 'e2:1'}, {id: e3, address: 'e3:1'}]
servers: [{id: r1, address: 'r1:6379'}, {id: r2, address: 'r2:6379'}, {id: r3, address: 'r3:6379'}]
`

// inWorld runs a test in a world with three servers, of which r1 is master, and three electors.
func inWorld(t *testing.T, test func(w *fakeWorld)) {
	t.Helper()
	secret := t.TempDir() + "/secret"
	writeFile(t, secret, strings.Repeat("s", 32))
	dirs := map[string]string{}
	for _, id := range []string{"e1", "e2", "e3"} {
		dirs[id] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWorld{t: t, store: memory.NewStore(0), thaw: make(chan struct{}), servers: map[string]*fakeRedis{}, electors: map[string]*fakeElector{}, cut: map[[2]string]bool{}}
		for i, id := range []string{"r1", "r2", "r3"} {
			w.servers[id] = &fakeRedis{world: w, id: id, at: Address{id, 6379}, life: 1, master: i == 0, of: Address{"r1", 6379}, replID: "history-1", offset: 100, priority: 100, conns: map[net.Conn]string{}}
		}
		for id, dir := range dirs {
			cfg, _, err := Read("f", fmt.Appendf(nil, fakeText, id, dir, secret))
			if err != nil {
				t.Fatal(err)
			}
			w.electors[id] = &fakeElector{id: id, cfg: cfg}
		}
		defer func() {
			w.change(func() { clear(w.cut) })
			for id := range w.electors {
				w.end(id)
			}
		}()
		test(w)
	})
}

func (w *fakeWorld) dial(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		w.mu.Lock()
		s, e, cut := w.servers[host], w.electors[host], w.cut[[2]string{from, host}]
		var to chan net.Conn
		if e != nil && e.stop != nil {
			to = e.conns
		}
		w.mu.Unlock()
		refusal := fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
		switch {
		case cut:
			<-ctx.Done()
			return nil, ctx.Err()
		case s != nil:
			w.mu.Lock()
			defer w.mu.Unlock()
			if s.life == 0 {
				return nil, refusal
			}
			a, b := net.Pipe()
			s.conns[b] = ""
			s.next++
			go s.serve(b, from, s.life, s.next)
			return a, nil
		case to != nil:
			a, b := net.Pipe()
			select {
			case to <- b:
				return a, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, refusal
	}
}

// start starts an elector.
func (w *fakeWorld) start(id string) *fakeElector {
	w.t.Helper()
	e := w.electors[id]
	var err error
	if e.elector, err = w.store.New("mymaster", id, memory.Config{Lease: time.Second}); err != nil {
		w.t.Fatal(err)
	}
	election, err := elect.New(e.elector, elect.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	conns := make(chan net.Conn)
	if e.e, err = New(e.cfg, Options{Listener: &pipeListener{conns: conns, closed: make(chan struct{})}, Dial: w.dial(id)}); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.mu.Lock()
	e.conns, e.stop, e.done = conns, stop, make(chan struct{})
	w.mu.Unlock()
	go func() {
		defer close(e.done)
		_ = e.e.Run(ctx, election)
		_ = election.Close()
	}()
	return e
}

func (w *fakeWorld) end(id string) {
	w.mu.Lock()
	e := w.electors[id]
	stop := e.stop
	e.stop = nil
	w.mu.Unlock()
	if stop != nil {
		stop()
		<-e.done
	}
}

// change changes the world.
func (w *fakeWorld) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.thaw)
	w.thaw = make(chan struct{})
}

// kill ends a server; restart begins its next life, with its data or without.
func (s *fakeRedis) kill() {
	s.world.change(func() {
		for c := range s.conns {
			_ = c.Close()
		}
		clear(s.conns)
		s.lives, s.life = max(s.lives, s.life), 0
	})
}

func (s *fakeRedis) restart(data bool) {
	s.world.change(func() {
		s.life, s.master, s.of = s.lives+1, true, Address{}
		s.previous, s.until, s.replID = "", 0, fmt.Sprintf("%s-life-%d", s.id, s.life)
		if !data {
			s.offset = 0
		}
	})
}

// isolate cuts a server off from all electors.
func (w *fakeWorld) isolate(server string, on bool) {
	w.change(func() {
		for id := range w.electors {
			w.cut[[2]string{id, server}] = on
		}
	})
}

// serve answers on one connection, while its server lives and is not cut off.
func (s *fakeRedis) serve(c net.Conn, from string, life, id int) {
	defer c.Close()
	r := bufio.NewReader(c)
	var queue [][]string
	for {
		args, err := readRequest(r, friends())
		if err != nil {
			return
		}
		for {
			s.world.mu.Lock()
			stuck, thaw, dead := s.world.cut[[2]string{from, s.id}], s.world.thaw, s.life != life
			s.world.mu.Unlock()
			if dead {
				return
			}
			if !stuck {
				break
			}
			<-thaw
		}
		s.world.mu.Lock()
		if _, open := s.conns[c]; !open {
			s.world.mu.Unlock()
			return
		}
		var v any
		switch verb := strings.ToUpper(args[0]); {
		case verb == "MULTI":
			queue, v = [][]string{}, simple("OK")
		case verb == "EXEC":
			all := []any{}
			for _, q := range queue {
				all = append(all, s.answer(c, id, q))
			}
			queue, v = nil, all
		case queue != nil:
			queue = append(queue, args)
			v = simple("QUEUED")
		default:
			v = s.answer(c, id, args)
		}
		s.world.mu.Unlock()
		if _, err := c.Write(appendReply(nil, 2, v)); err != nil {
			return
		}
	}
}

// answer answers a request. The world is locked.
func (s *fakeRedis) answer(c net.Conn, id int, args []string) any {
	w := s.world
	switch strings.ToUpper(strings.Join(args[:min(2, len(args))], " ")) {
	case "PING":
		return simple("PONG")
	case "CLIENT SETNAME":
		if s.nameless {
			return replyError("NOPERM no permissions to run the 'client|setname' command")
		}
		s.conns[c] = strconv.Itoa(id) + " " + args[2]
	case "CLIENT LIST":
		var text strings.Builder
		for _, name := range s.conns {
			n, name, _ := strings.Cut(name, " ")
			fmt.Fprintf(&text, "id=%s addr=x name=%s age=1\n", n, name)
		}
		return text.String()
	case "CLIENT KILL":
		if args[3] == "replica" {
			s.unlinked++
		}
		for other, name := range s.conns {
			if args[2] == "ID" && strings.HasPrefix(name, args[3]+" ") || args[2] == "TYPE" && args[3] != "replica" && other != c {
				delete(s.conns, other)
				_ = other.Close()
			}
		}
		return 1
	case "INFO SERVER":
		return fmt.Sprintf("redis_version:7.0.15\r\nhz:10\r\nrun_id:%s-%d\r\n", s.id, s.life)
	case "INFO KEYSPACE":
		if s.offset > 0 {
			return "db0:keys=1,expires=0\r\n"
		}
		return ""
	case "INFO REPLICATION":
		text := fmt.Sprintf("role:slave\r\nmaster_host:%s\r\nmaster_port:%d\r\nmaster_link_status:up\r\nslave_priority:%d\r\nslave_repl_offset:%d\r\n", s.of.Host, s.of.Port, s.priority, s.offset)
		if m := w.servers[s.of.Host]; m == nil || m.life == 0 {
			text = strings.Replace(text, "link_status:up", "link_status:down", 1)
		} else if s.waiting {
			text = strings.Replace(text, "link_status:up", "link_status:down", 1)
		} else if s.syncing {
			text = strings.Replace(text, "link_status:up", "link_status:down\r\nmaster_sync_in_progress:1", 1)
		}
		if s.master {
			text = "role:master\r\nmaster_failover_state:no-failover\r\n"
			for id, o := range w.servers {
				if !o.master && o.of == s.at && o.life != 0 {
					text += fmt.Sprintf("slave%d:ip=%s,port=6379,state=online,offset=1,lag=0\r\n", len(text), id)
				}
			}
			for i := range s.outsiders {
				text += fmt.Sprintf("slave%d:ip=10.9.9.%d,port=6379,state=online,offset=1,lag=0\r\n", len(text), i)
			}
			if s.toWrite > 0 {
				text += "min_slaves_good_slaves:2\r\n"
			}
		}
		return text + fmt.Sprintf("master_replid:%s\r\nmaster_replid2:%s\r\nmaster_repl_offset:%d\r\nsecond_repl_offset:%d\r\n", s.replID, s.previous, s.offset, s.until+1)
	case "REPLICAOF NO":
		if !s.master {
			s.master, s.of, s.previous, s.until = true, Address{}, s.replID, s.offset
			s.replID = fmt.Sprintf("%s-history-%d", s.id, s.life)
			s.promoted = append(s.promoted, time.Now())
		}
	case "CONFIG SET", "CONFIG REWRITE":
		n, _ := strconv.Atoi(args[len(args)-1])
		if len(args) > 2 && args[2] == "min-replicas-to-write" {
			s.toWrite = n
		}
	default:
		if strings.EqualFold(args[0], "REPLICAOF") {
			port, _ := strconv.Atoi(args[2])
			s.syncing = false
			if s.master, s.of = false, (Address{args[1], port}); s.of == nowhere() {
				s.taken = append(s.taken, time.Now())
			}
			if m := w.servers[args[1]]; m != nil && m.master && m.life != 0 {
				s.replID, s.offset, s.previous, s.until = m.replID, m.offset, m.previous, m.until
			}
			break
		}
		return replyError(fmt.Sprintf("ERR the fake does not know %q", args))
	}
	return simple("OK")
}

// pipeListener accepts pipes.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{Port: 26379} }

// pass lets fake time pass.
func (w *fakeWorld) pass(d time.Duration) { time.Sleep(d) }

// masters are what the electors tell clients; "" is nothing.
func (w *fakeWorld) masters() map[string]string {
	all := map[string]string{}
	for id, e := range w.electors {
		if e.stop != nil {
			s := e.e.clientMaster()
			if all[id] = ""; s != nil {
				all[id] = s.id
			}
		}
	}
	return all
}

// wait waits, in fake time, until all electors that run tell clients this master, and returns how long that took.
func (w *fakeWorld) wait(master string, most time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		all := true
		for _, m := range w.masters() {
			all = all && m == master
		}
		if took := time.Since(began); all {
			return took
		} else if took > most {
			w.t.Fatalf("after %v clients are told %v; want %s", took, w.masters(), master)
		}
		w.pass(time.Millisecond)
	}
}

// acting is the elector that acts.
func (w *fakeWorld) acting() string {
	for id, e := range w.electors {
		if e.stop == nil {
			continue
		}
		e.e.mu.Lock()
		acts := e.e.actor != nil
		e.e.mu.Unlock()
		if acts {
			return id
		}
	}
	return ""
}
