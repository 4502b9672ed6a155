//go:build linux

package exactlyonce_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

const (
	every = 100 * time.Millisecond
	storm = 20 * time.Second
	calm  = 3 * time.Minute // for all runs to finish afterwards
	mid   = 3               // one call in so many, on average, is the caller's last for a while
)

// TestExactlyOnce kills and freezes schedulers: those that are in the middle of a job, when they
// call the service, and any of them at any moment.
func TestExactlyOnce(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	p := server.StartPostgres(t)
	url := p.Database(t)
	s := &scene{t: t, url: url, program: harness.Build(t, "../../../examples/exactlyonce"), kept: map[string]int{}}
	s.run("-install")
	service := httptest.NewServer(s)
	t.Cleanup(service.Close)
	s.service = service.URL
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // for what nodes on the loopback make there
	var voters []string
	for _, id := range ids {
		voters = append(voters, id+"@"+harness.FreeAddr(t))
	}
	s.election = "peer://" + strings.Join(voters, ",") + "?profile=lan&data=" + filepath.Join(t.TempDir(), "ballots")
	for i := range ids {
		s.start(i)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	await(t, db, "a first run", `SELECT count(*) > 0 FROM runs WHERE state = 'done'`)

	s.storming(true)
	end := time.After(storm)
	for blows := true; blows; {
		select {
		case <-end:
			blows = false
		case <-time.After(time.Duration(rand.IntN(5000)) * time.Millisecond):
			s.strike(rand.IntN(len(ids)), "at a random moment")
		}
	}
	s.storming(false)
	s.rest()

	var until time.Time
	if err := db.QueryRowContext(t.Context(), `SELECT now()`).Scan(&until); err != nil {
		t.Fatal(err)
	}
	await(t, db, "everything to be done", `SELECT coalesce(max(due) FILTER (WHERE state = 'done') >= $1, false) AND
		NOT coalesce(bool_or(state <> 'done' AND due <= $1), false) FROM runs`, until)
	s.end()
	s.judge(db)
}

// judge checks the final state.
func (s *scene) judge(db *sql.DB) {
	s.t.Helper()
	one := func(query string, args ...any) (n int) {
		s.t.Helper()
		if err := db.QueryRowContext(context.Background(), query, args...).Scan(&n); err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	done := one(`SELECT count(*) FROM runs WHERE state = 'done'`)
	if n := one(`SELECT count(*) FROM (SELECT due - lag(due) OVER (ORDER BY due) AS gap FROM runs) AS g WHERE gap <> $1 * interval '1 us'`, every.Microseconds()); n > 0 {
		s.t.Errorf("%d times were left out", n)
	}
	if n := one(`SELECT count(*) FROM (SELECT job, due FROM invoices GROUP BY job, due HAVING count(*) > 1) AS twice`); n > 0 {
		s.t.Errorf("%d runs have had their effect more than once", n)
	}
	if n := one(`SELECT count(*) FROM runs LEFT JOIN invoices USING (job, due) WHERE (state = 'done') <> (invoices.due IS NOT NULL)`); n > 0 {
		s.t.Errorf("%d runs are done without an effect, or have one and are not done", n)
	}
	if n := one(`SELECT count(*) FROM invoices`); n != done {
		s.t.Errorf("%d effects of %d runs that are done", n, done)
	}
	if n := one(`SELECT count(*) FROM (SELECT token < lag(token) OVER (ORDER BY due) AS fell FROM invoices) AS f WHERE fell`); n > 0 {
		s.t.Errorf("%d effects are of an earlier leader than those of the run before", n)
	}
	leaders, taken := one(`SELECT count(DISTINCT token) FROM invoices`), one(`SELECT count(*) FROM runs WHERE tries > 1`)
	s.mu.Lock()
	defer s.mu.Unlock()
	again := 0
	rows, err := db.QueryContext(context.Background(), `SELECT job || '@' || to_char(due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') FROM runs WHERE state = 'done'`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			s.t.Fatal(err)
		}
		calls := s.kept[strings.TrimRight(strings.TrimRight(key, "0"), ".")+"Z"]
		if calls == 0 {
			s.t.Errorf("the service was never told of %s", key)
		}
		if calls > 1 {
			again++
		}
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%d runs by %d leaders; %d kills and %d stops; %d runs were begun again, %d of which the service was told again, with the same key; %d steps of old leaders refused",
		done, leaders, s.kills, s.stops, taken, again, s.refused)
	if leaders < 3 || taken == 0 || again == 0 {
		s.t.Error("nothing was tested; want three leaders, and a run that one has left to the next")
	}
}

var ids = [3]string{"n1", "n2", "n3"}

// scene is the schedulers, and the service outside, whose goroutines share it.
type scene struct {
	t                               *testing.T
	url, program, service, election string

	mu           sync.Mutex
	storms       bool
	all          [len(ids)]*scheduler
	kept         map[string]int // calls by idempotency key: the first has the effect, the others find it
	kills, stops int
	refused      int
	out          bool // one of them is frozen, or is being started again
	work         sync.WaitGroup
}

type scheduler struct {
	cmd    *exec.Cmd
	log    string
	done   chan struct{} // it has ended
	struck bool          // it was killed
}

// ServeHTTP is the service. It keeps the keys, and sometimes kills its caller before it answers.
func (s *scene) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.kept[r.Header.Get("Idempotency-Key")]++
	storms := s.storms
	s.mu.Unlock()
	if storms && rand.IntN(mid) == 0 {
		if i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); err == nil && i < len(ids) {
			s.strike(i, "in the midst of a job")
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *scene) storming(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storms = on
}

// strike kills one and starts it anew, or freezes it for a while. One at a time: two of
// three are needed for a leader.
func (s *scene) strike(i int, when string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out || !s.storms {
		return
	}
	s.out = true
	victim := s.all[i]
	kill := rand.IntN(2) == 0
	if kill {
		victim.struck = true
		s.kills++
		_ = victim.cmd.Process.Kill()
	} else {
		s.stops++
		_ = victim.cmd.Process.Signal(syscall.SIGSTOP)
	}
	s.t.Logf("%s, %s: killed: %t", ids[i], when, kill)
	s.work.Go(func() {
		<-time.After(time.Duration(500+rand.IntN(2000)) * time.Millisecond)
		if kill {
			s.finish(victim)
			s.start(i)
		} else {
			_ = victim.cmd.Process.Signal(syscall.SIGCONT)
		}
		<-time.After(300 * time.Millisecond) // time to do some work
		s.mu.Lock()
		s.out = false
		s.mu.Unlock()
	})
}

// rest waits until all run again.
func (s *scene) rest() { s.work.Wait() }

// start starts a scheduler. The path of the service names the caller.
func (s *scene) start(i int) {
	log, err := os.CreateTemp(s.t.TempDir(), "log")
	if err != nil {
		s.t.Error(err)
		return
	}
	defer log.Close()
	cmd := exec.Command(s.program, "-db", s.url, "-election", s.election, "-id", ids[i], "-every", every.String(), "-takes", "5ms", "-notify", fmt.Sprint(s.service, "/", i))
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &scheduler{cmd: cmd, log: log.Name(), done: make(chan struct{})}
	s.all[i] = one
	go func() {
		defer close(one.done)
		_ = cmd.Wait() // the state tells more
	}()
}

var refused = regexp.MustCompile(`msg=refused `)

// finish waits for the end of a process, which must be one that the test has caused.
func (s *scene) finish(one *scheduler) {
	<-one.done
	text, _ := os.ReadFile(one.log)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused += len(refused.FindAll(text, -1))
	if !one.struck {
		s.t.Errorf("a scheduler has ended by itself: %v\n%s", one.cmd.ProcessState, text[max(0, len(text)-4000):])
	}
}

// end kills all that are left.
func (s *scene) end() {
	for _, one := range s.all {
		select {
		case <-one.done:
		default:
			one.struck = true
			_ = one.cmd.Process.Kill() // it may have ended just now
		}
		s.finish(one)
	}
}

func (s *scene) run(args ...string) {
	s.t.Helper()
	if out, err := exec.Command(s.program, append([]string{"-db", s.url}, args...)...).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// await waits until a query says true.
func await(t *testing.T, db *sql.DB, what, query string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(calm)
	for {
		var is bool
		if err := db.QueryRowContext(t.Context(), query, args...).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", calm, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
