package elect_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

func TestOpen(t *testing.T) {
	openers := elect.Openers{"memory": memory.NewStore(0).Open}
	e, err := openers.Open(t.Context(), "memory:?lease=3s", "job", elect.Config{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Limits().Lease.Seconds() != 3 {
		t.Errorf("the lease is %v; want 3s", e.Limits().Lease)
	}
	term := win(t, e)
	if l, err := e.Leader(t.Context()); err != nil || l.ID != "a" || l.Token != term.Token() {
		t.Errorf("Leader is %+v, %v", l, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	refused := failure("password refused")
	openers := elect.Openers{
		"memory":   memory.NewStore(0).Open,
		"postgres": func(context.Context, driver.Target) (driver.Elector, error) { return nil, refused },
	}
	for _, tt := range []struct {
		name, url, election string
		cfg                 elect.Config
		says                string
	}{
		{"no URL", "", "job", elect.Config{}, `election URL "" has no scheme; want one such as memory:…`},
		{"no scheme", "/var/lib/elect", "job", elect.Config{}, `"/var/lib/elect" has no scheme`},
		{"unknown scheme", "etcd://host", "job", elect.Config{}, `unknown scheme "etcd"; want one of: memory, postgres`},
		{"control character", "memory:\x7f", "job", elect.Config{}, "invalid control character"},
		{"port", "postgres://host:port/db", "job", elect.Config{}, "invalid port"},
		{"unknown parameter", "memory:?leese=2s", "job", elect.Config{}, `parameter "leese"; want at most one lease=DURATION`},
		{"bad parameter", "memory:?lease=2", "job", elect.Config{}, `lease "2"; want a duration such as 2s`},
		{"lease out of bounds", "memory:?lease=1ms", "job", elect.Config{}, "lease 1ms; want 10ms to 1h0m0s"},
		{"a place where there is none", "memory:///tmp", "job", elect.Config{}, "a memory election has no place"},
		{"no name", "memory:", "", elect.Config{}, "election name is empty; want 1 to 128 bytes"},
		{"a name with a slash", "memory:", "a/b", elect.Config{}, `election name "a/b" contains '/'`},
		{"an id with a space", "memory:", "job", elect.Config{ID: "a b"}, `id "a b" contains ' '`},
		{"a bad config", "memory:", "job", elect.Config{Drain: -1}, `election "job" at memory:: elect.Config.Drain is -1ns`},
		{"a missing ability", "memory:", "job", elect.Config{Require: []elect.Ability{driver.AbilityInherit}}, `ability "inherit" is required`},
		{"what the back end says", "postgres://host/db", "job", elect.Config{}, `election "job" at postgres://host/db: password refused`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := openers.Open(t.Context(), tt.url, tt.election, tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open returned %v; want one line that says %s", err, tt.says)
			}
		})
	}
	if _, err := openers.Open(t.Context(), "postgres://h/d", "job", elect.Config{}); !errors.Is(err, refused) {
		t.Errorf("the back end's error is not wrapped: %v", err)
	}
	if _, err := (elect.Openers{}).Open(t.Context(), "job", "job", elect.Config{}); err == nil || !strings.Contains(err.Error(), "file:/var/lib/elect") {
		t.Errorf("Open of no openers: %v", err)
	}
}

// Whatever is wrong with a URL, its password is not shown.
func TestOpenRedacts(t *testing.T) {
	openers := elect.Openers{
		"postgres": func(context.Context, driver.Target) (driver.Elector, error) { return nil, errWork },
	}
	for _, url := range []string{
		"postgres://user:hunter2@host/db",
		"postgres://user:hunter2@host:port/db",
		"postgres://user:hun/hunter2@host/db",
		"postgres://user:12/hunter2@host/db",
		"postgres://user:12#hunter2@host/db",
		"postgres://user:12?hunter2@host/db",
		"postgres://user:hunter2%zz@host/db",
		"postgres:user:hunter2@host/db",
		"postgres://host/db?password=hunter2",
		"postgres://host/db?sslmode=off&sslpassword=hunter2&x=y",
		"postgres://host:port/db?password=hunter2",
		"etcd://user:hunter2@host",
		"//user:hunter2@host",
		"user:hunter2@host",
	} {
		_, err := openers.Open(t.Context(), url, "job", elect.Config{ID: "a"})
		if err == nil {
			t.Fatalf("Open of %q succeeded", url)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password of %q is shown: %v", url, err)
		}
	}
}

// An elector whose Config is refused after it was opened is closed again.
func TestOpenClosesWhatItRefuses(t *testing.T) {
	f := newFake()
	openers := elect.Openers{"fake": func(context.Context, driver.Target) (driver.Elector, error) { return f, nil }}
	if _, err := openers.Open(t.Context(), "fake:", "job", elect.Config{Drain: time.Hour}); err == nil {
		t.Fatal("a drain above the lease was accepted")
	}
	if !f.closed.Load() {
		t.Error("the elector was left open")
	}
}

func TestDefaultID(t *testing.T) {
	var got driver.Target
	openers := elect.Openers{"fake": func(_ context.Context, target driver.Target) (driver.Elector, error) {
		got = target
		return newFake(), nil
	}}
	e, err := openers.Open(t.Context(), "fake:", "job", elect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got.ID != elect.DefaultID() || driver.CheckID(got.ID) != nil || !strings.HasSuffix(got.ID, ":"+strconv.Itoa(os.Getpid())) {
		t.Errorf("the id is %q", got.ID)
	}
}
