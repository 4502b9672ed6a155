package redis

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/electd/elect/driver"
)

// TestCloseAtSilentServer: a server that accepts connections and answers nothing does not keep an election from closing.
// One call of go-redis waits for 3 s, whatever its context, and others behind it.
func TestCloseAtSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	e, err := Open(ctx, driver.Target{URL: one(t, "redis://"+l.Addr().String()), Name: "n", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Campaign(ctx, driver.Candidacy{}); err == nil {
		t.Error("it leads")
	}
	began := time.Now()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("closing took %v", took)
	}
}
