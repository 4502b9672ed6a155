//go:build linux

package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/long"
)

const dirEnv = "REGISTER_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirEnv); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

// writeForEver is a client that is going to be killed.
func writeForEver(dir string) {
	c, err := Open(dir, Name("victim"))
	if err != nil {
		panic(err)
	}
	for n := 1; ; n++ {
		if _, err := c.Write(context.Background(), fence.Token(n), fmt.Sprintf("%d/%d", os.Getpid(), n)); err != nil {
			panic(err)
		}
		if _, err := c.Stream(context.Background(), fence.Sequence{Token: 1, Position: uint64(n)}); err != nil {
			panic(err)
		}
	}
}

// TestKilledClients kills clients in mid-request, again and again. The server goes on; and the logs
// tell of each operation, to the last one, whether it was carried out: the sums are those of the
// server.
func TestKilledClients(t *testing.T) {
	rounds := long.Or(40, 5)
	dir, s := serve(t)
	reader := open(t, dir, "reader")
	for round := range rounds {
		var victims []*exec.Cmd
		for range 2 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), dirEnv+"="+dir)
			cmd.Stderr = t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			victims = append(victims, cmd)
		}
		before := s.Stats().Writes
		late := time.After(30 * time.Second)
		for s.Stats().Writes < before+rand.Int64N(100) {
			select {
			case <-late:
				t.Fatalf("round %d: %+v", round, s.Stats())
			case <-time.After(time.Duration(rand.Int64N(int64(time.Millisecond)))):
			}
		}
		for _, v := range victims {
			_ = v.Process.Kill()
			_ = v.Wait()
		}
		if _, err := reader.Read(t.Context()); err != nil {
			t.Fatalf("round %d: the server does not serve any more: %v", round, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var told Stats
	resolved, never := 0, 0
	for _, o := range read(t, dir) {
		if o.Resolved {
			resolved++
		}
		if o.Result == Never {
			never++
			continue
		}
		if o.Result != OK && o.Result != Stale || o.Return < o.Call {
			t.Errorf("%+v", o)
		}
		stale := int64(0)
		if o.Result == Stale {
			stale = 1
		}
		switch o.Op {
		case Write:
			told.Writes++
			told.Refused += stale
		case Stream:
			told.Streams++
			told.OutOfTurn += stale
		case Read:
			told.Reads++
		}
	}
	if told != s.Stats() {
		t.Errorf("the logs tell of %+v, and the server counted %+v", told, s.Stats())
	}
	t.Logf("%+v in %d rounds; %d outcomes that only the server knew, %d requests that never arrived", told, rounds, resolved, never)
	if resolved == 0 && long.Many() {
		t.Error("no client was killed in mid-request: nothing was tested")
	}
	if _, err := reader.Read(t.Context()); err == nil || errors.Is(err, ErrNotCalled) {
		t.Errorf("after the end: %v", err)
	}
}
