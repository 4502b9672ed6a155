package marks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

func TestOpenRefuses(t *testing.T) {
	for _, at := range []string{
		"", "orders", "floppy:a", "file:", "file://host/x", "file:x?y=1", "mysql:///x", "mysql://u:geheim@h/x?timeout=soon", "redis://:geheim@h/x/y/z",
		"postgres://u:geheim@h:port/x", "postgres://u:geheim@h/x?sslmode=sometimes", "postgres://u:geheim@h/x?fence_table=Robert;", "postgres://u:gehe im%zz@h",
		"host=h user=u password=geheim", "Server=h;Password=geheim", "password=geheim",
		"jdbc:sqlserver://h;password=geheim", "x:password = geheim", "http://h/password=geheim",
	} {
		p, err := Open(at, Config{})
		if !errors.Is(err, ErrURL) || p != nil {
			t.Errorf("%q: %v, %v; want ErrURL", at, p, err)
			continue
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// A driver may put what it likes into an error.
func TestPasswordIsHidden(t *testing.T) {
	err := hide(errors.Join(&fence.StaleError{Shown: 1, Highest: 2}, errors.New("user=u password=geheim")), "geheim")
	if strings.Contains(err.Error(), "geheim") || !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Highest != 2 {
		t.Errorf("%v does not say what has happened", err)
	}
	if err := hide(errors.New("user=u database=db password=geheim"), ""); strings.Contains(err.Error(), "geheim") {
		t.Errorf("%v", err)
	}
	if hide(nil, "x") != nil {
		t.Error("an error out of nothing")
	}
}

func TestMark(t *testing.T) {
	for _, at := range []string{
		"", "orders", "floppy:a", "file:", "memory:x", "memory?y=1", "redis://:geheim@h", "http://h", "app:geheim@tcp(db:3306)/orders",
		"postgres://u:geheim@h:port/x", "postgres://u:geheim@h/x?sslmode=sometimes", "mysql://u:geheim@h/x?timeout=soon", "host=h user=u password=geheim",
	} {
		m, err := Mark(at, Config{})
		if !errors.Is(err, ErrURL) || m != nil {
			t.Errorf("%q: %v, %v; want ErrURL", at, m, err)
			continue
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", at, err)
		}
	}
	for at, shared := range map[string]bool{"memory": false, "memory:": false, "file:" + t.TempDir(): false, "postgres://u@127.0.0.1:1/x": true, "mysql://u@127.0.0.1:1/x": true} {
		m, err := Mark(at, Config{})
		if err != nil {
			t.Errorf("%q: %v", at, err)
			continue
		}
		if _, ok := m.Mark.(fence.Sharer); ok != shared {
			t.Errorf("%q: several may share it: %t", at, ok)
		}
		if strings.HasPrefix(at, "memory") && len(m.Warnings) != 1 {
			t.Errorf("%q warns: %q", at, m.Warnings)
		}
		if err := m.Close(); err != nil {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// Two guards with one directory would not know of each other's work.
func TestMarkOfOneGuard(t *testing.T) {
	at := "file:" + t.TempDir()
	first, err := Mark(at, Config{}, "orders")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Mark(at, Config{}, "invoices", "orders"); err == nil || !strings.Contains(err.Error(), "another guard has the mark of orders") {
		t.Errorf("%v, %v; want an error: orders has a guard", m, err)
	}
	other, err := Mark(at, Config{}, "invoices") // and what the one that failed had taken is free
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	again, err := Mark(at, Config{}, "orders", "invoices")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// secretive is a mark whose errors tell all.
type secretive struct{ fence.Sharer }

var errTold = errors.New("user=u password=geheim")

func (secretive) Raise(context.Context, fence.Resource, fence.Token) error { return errTold }

func (secretive) Highest(context.Context, fence.Resource) (fence.Token, error) { return 0, errTold }

func (secretive) Share(_ context.Context, _ fence.Resource, token fence.Token) (func() error, error) {
	if token == 1 {
		return nil, errTold
	}
	return func() error { return errTold }, nil
}

func TestMarkHidesPasswords(t *testing.T) {
	m := discreetMark{secretive{}, "geheim"}
	_, highest := m.Highest(t.Context(), "r")
	_, share := m.Share(t.Context(), "r", 1)
	release, err := m.Share(t.Context(), "r", 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"raise": m.Raise(t.Context(), "r", 1), "highest": highest, "share": share, "release": release()} {
		if !errors.Is(err, errTold) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
