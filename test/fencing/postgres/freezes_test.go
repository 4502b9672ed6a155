//go:build linux

package postgres_test

import (
	"bytes"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/electd/elect/test/fencing/server"
)

// TestGuardFreezes is that of agent/supervise with a PostgreSQL among its servers, which checks nothing.
func TestGuardFreezes(t *testing.T) {
	pg := server.StartPostgres(t, "fsync=off")
	at, err := url.Parse(pg.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=0", "-parallel=16", "-v", "-run=^TestGuardFreezes$", "github.com/electd/elect/agent/supervise")
	cmd.Env = append(os.Environ(), "SUPERVISE_POSTGRES="+at.Host)
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(t.Output(), &out)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		t.Error(err)
	} else if strings.Contains(out.String(), "--- SKIP: TestGuardFreezes (") {
		t.Skip("it was skipped there: see above")
	} else if !strings.Contains(out.String(), "--- PASS: TestGuardFreezes (") || strings.Contains(out.String(), "--- SKIP: ") {
		t.Error("it did not run there in full: see above")
	}
}
