//go:build linux

package partitions_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

const (
	partitions = 6
	storm      = 20 * time.Second
	calm       = 3 * time.Minute // for all partitions to be led afterwards
)

var ids = []string{"n1", "n2", "n3"}

// record is a line of a producer or a consumer.
type record struct {
	Partition string
	Offset    int64
	Epoch     int64
	Producer  string
	Seq       int64
}

// TestBrokers kills and freezes brokers while producers append and a consumer reads. Each record that was acknowledged
// is in the log once, at the offset that was acknowledged; offsets have no gaps; epochs never fall; and what the consumer
// read while this went on is the log.
func TestBrokers(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	p := server.StartPostgres(t)
	s := &scene{t: t, url: p.Database(t), program: harness.Build(t, "../../../examples/partitions"), dir: t.TempDir()}
	s.election = "file:" + filepath.Join(s.dir, "election")
	for _, id := range ids {
		s.brokers += id + "=" + harness.FreeAddr(t) + ","
	}
	if out, err := s.command("-db", s.url, "install").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	db, err := sql.Open("pgx", s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })

	for i := range ids {
		s.start(i)
	}
	clients := []*process{s.client("p1", "-id", "p1", "produce"), s.client("p2", "-id", "p2", "produce"), s.client("consumer", "consume")}
	s.await(db, "records in all partitions", `SELECT count(DISTINCT partition) = $1 FROM records`, partitions)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var zombie sync.WaitGroup
	refused := 0
	zombie.Go(func() { refused = s.zombie(ctx, db) })

	kills, stops := 0, 0
	for end := time.Now().Add(storm); time.Now().Before(end); {
		i := (kills + stops) % len(ids) // in turn, so that the coordinator is among them
		if rand.IntN(3) > 0 {
			kills++
			s.kill(i)
			<-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond)
			s.start(i)
		} else {
			stops++
			s.signal(i, syscall.SIGSTOP)
			<-time.After(time.Duration(500+rand.IntN(2000)) * time.Millisecond) // beyond the promise, mostly
			s.signal(i, syscall.SIGCONT)
		}
		<-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond)
	}
	for i := range partitions {
		name, end := strconv.Itoa(i), 0
		if err := db.QueryRowContext(t.Context(), `SELECT max("offset") FROM records WHERE partition = $1`, name).Scan(&end); err != nil {
			t.Fatal(err)
		}
		s.await(db, "more records in partition "+name, `SELECT max("offset") > $2 FROM records WHERE partition = $1`, name, end+20)
	}

	stop()
	zombie.Wait()
	for _, producer := range clients[:2] {
		s.end(producer)
	}
	var records int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM records`).Scan(&records); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the consumer to have read all", func() bool { return len(s.lines(clients[2])) >= records })
	s.end(clients[2])
	for i := range ids {
		s.kill(i)
	}
	s.judge(db, clients[0], clients[1], clients[2])
	t.Logf("%d kills and %d stops; %d appends of a zombie refused", kills, stops, refused)
	if refused == 0 {
		t.Error("no zombie was refused, so that nothing was tested")
	}
}

// judge compares what clients saw with what is in the log.
func (s *scene) judge(db *sql.DB, p1, p2, consumer *process) {
	s.t.Helper()
	log := make(map[record]bool)
	rows, err := db.QueryContext(context.Background(), `SELECT partition, "offset", epoch, producer, seq FROM records ORDER BY partition, "offset"`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	last, epochs := record{}, make(map[string]bool)
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.Partition, &r.Offset, &r.Epoch, &r.Producer, &r.Seq); err != nil {
			s.t.Fatal(err)
		}
		if r.Partition != last.Partition {
			last = record{Partition: r.Partition, Offset: -1}
		}
		if r.Offset != last.Offset+1 || r.Epoch < last.Epoch {
			s.t.Errorf("%+v comes after %+v", r, last)
		}
		last, log[r] = r, true
		epochs[fmt.Sprint(r.Partition, r.Epoch)] = true
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	acked := 0
	for _, p := range []*process{p1, p2} {
		next := make(map[string]int64) // a producer waits for each acknowledgement
		for _, r := range s.lines(p) {
			acked++
			if !log[r] {
				s.t.Errorf("%s was acknowledged %+v, which is not in the log", p.name, r)
			}
			if r.Seq != next[r.Partition] {
				s.t.Errorf("%s was acknowledged %+v, want the number %d", p.name, r, next[r.Partition])
			}
			next[r.Partition]++
		}
	}
	if more := len(log) - acked; more < 0 || more > 2*partitions {
		s.t.Errorf("%d records are in the log and %d were acknowledged; want at most one more for each producer and partition", len(log), acked)
	}
	read := s.lines(consumer)
	for _, r := range read {
		if !log[r] {
			s.t.Errorf("the consumer read %+v, which is not in the log", r)
		}
	}
	if more := len(log) - len(read); more < 0 || more > 2*partitions { // what was under way when it ended
		s.t.Errorf("the consumer read %d records of %d", len(read), len(log))
	}
	refused, coordinators := 0, 0
	for _, p := range s.ended {
		text, err := os.ReadFile(p.err)
		if err != nil {
			s.t.Fatal(err)
		}
		refused += len(refusal.FindAll(text, -1))
		coordinators += len(coordinates.FindAll(text, -1))
	}
	s.t.Logf("%d records, %d acknowledged, %d terms of partitions, %d of coordinators; PostgreSQL refused %d claims or appends of old leaders", len(log), acked, len(epochs), coordinators, refused)
	if len(epochs) < 3*partitions || coordinators < 3 {
		s.t.Error("too little was tested; want three terms of each partition, and three coordinators")
	}
}

// zombie is a leader of an epoch that was replaced, which appends while others lead, until ctx ends. It returns how often
// it was refused.
func (s *scene) zombie(ctx context.Context, db *sql.DB) (refused int) {
	for i := 0; ctx.Err() == nil; i++ {
		name := strconv.Itoa(i % partitions)
		guard, err := fencesql.New(db, fencesql.PostgreSQL, fence.Resource("orders/"+name), fencesql.Config{})
		if err != nil {
			s.t.Error(err)
			return refused
		}
		var old sql.NullInt64
		if err := db.QueryRowContext(ctx, `SELECT max(epoch) FROM records AS r WHERE partition = $1 AND epoch < (SELECT max(epoch) FROM records WHERE partition = $1)`, name).Scan(&old); err != nil || !old.Valid {
			continue
		}
		err = guard.Write(ctx, fence.Token(old.Int64), nil, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO records (topic, partition, "offset", epoch, producer, seq, body)
				SELECT 'orders', $1, max("offset") + 1, $2, 'zombie', $3, '' FROM records WHERE partition = $1`, name, old.Int64, i)
			return err
		})
		switch {
		case errors.Is(err, fence.ErrStale):
			refused++
		case ctx.Err() == nil:
			s.t.Errorf("an append to partition %s with the old epoch %d: %v, want a refusal", name, old.Int64, err)
		}
	}
	return refused
}

var (
	refusal     = regexp.MustCompile(`msg=refused `)
	coordinates = regexp.MustCompile(`msg="this member is the coordinator"`)
)

// scene is the processes.
type scene struct {
	t                                    *testing.T
	url, program, dir, election, brokers string
	all                                  [3]*process // the brokers
	ended                                []*process  // that were killed
}

type process struct {
	name, out, err string // the files of its outputs
	cmd            *exec.Cmd
	done           chan struct{}
}

func (s *scene) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, append([]string{"-brokers", s.brokers, "-partitions", strconv.Itoa(partitions)}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (s *scene) run(name string, cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	file := func(kind string) *os.File {
		f, err := os.CreateTemp(s.dir, name+"-"+kind)
		if err != nil {
			s.t.Fatal(err)
		}
		return f
	}
	out, log := file("out"), file("log")
	defer out.Close()
	defer log.Close()
	cmd.Stdout, cmd.Stderr = out, log
	p.out, p.err = out.Name(), log.Name()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the state tells more
	}()
	return p
}

func (s *scene) start(i int) {
	s.t.Helper()
	s.all[i] = s.run(ids[i], s.command("-db", s.url, "-election", s.election, "-promise", "600ms", "-id", ids[i], "broker"))
}

func (s *scene) client(name string, args ...string) *process {
	s.t.Helper()
	return s.run(name, s.command(args...))
}

// kill kills a broker, which must still run.
func (s *scene) kill(i int) {
	s.t.Helper()
	p := s.all[i]
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.err)
		s.t.Fatalf("%s has ended by itself: %v\n%s", p.name, p.cmd.ProcessState, text[max(0, len(text)-4000):])
	default:
	}
	_ = p.cmd.Process.Kill() // it may have ended just now
	<-p.done
	s.ended = append(s.ended, p)
}

func (s *scene) signal(i int, sig syscall.Signal) {
	s.t.Helper()
	if err := s.all[i].cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// end ends a client in good order.
func (s *scene) end(p *process) {
	s.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have failed, and then its state says so
	<-p.done
	if !p.cmd.ProcessState.Success() {
		text, _ := os.ReadFile(p.err)
		s.t.Errorf("%s: %v\n%s", p.name, p.cmd.ProcessState, text)
	}
}

// lines are the records that a client has printed.
func (s *scene) lines(p *process) (all []record) {
	s.t.Helper()
	f, err := os.Open(p.out)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			if strings.HasSuffix(lines.Text(), "}") {
				s.t.Fatalf("%s: %q: %v", p.name, lines.Text(), err)
			}
			return all // the last line is being written
		}
		all = append(all, r)
	}
	return all
}

// await waits until a query says true.
func (s *scene) await(db *sql.DB, what, query string, args ...any) {
	s.t.Helper()
	deadline := time.Now().Add(calm)
	for {
		var is bool
		if err := db.QueryRowContext(s.t.Context(), query, args...).Scan(&is); err != nil {
			s.t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(deadline) {
			for _, p := range s.all {
				text, _ := os.ReadFile(p.err)
				s.t.Logf("%s:\n%s", p.name, text[max(0, len(text)-3000):])
			}
			s.t.Fatalf("waited %v for %s", calm, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
