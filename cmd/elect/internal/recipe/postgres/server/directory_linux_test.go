package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExchange: a crash after any step of an exchange leaves a state in which the old directory, or the whole new one, is
// in its place again.
func TestExchange(t *testing.T) {
	for _, c := range []struct {
		name  string
		there []string // with their own names in a file
		want  string   // what is in the place of data afterwards; "" for nothing
	}{
		{"nothing", nil, ""},
		{"while the first copy was made", []string{"data.partial"}, ""},
		{"while a copy was made", []string{"data", "data.partial"}, "data"},
		{"the copy was whole", []string{"data", "data.whole"}, "data"},
		{"the first copy was whole", []string{"data.whole"}, "data.whole"},
		{"the old one was moved", []string{"data.former", "data.whole"}, "data.whole"},
		{"the new one was in its place", []string{"data", "data.former"}, "data"},
		{"only the old one is left", []string{"data.former"}, "data.former"},
	} {
		dir := t.TempDir()
		for _, name := range c.there {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, name, "name"), []byte(name), 0o600))
		}
		s := &Server{data: filepath.Join(dir, "data")}
		must(t, s.recover())
		got, err := os.ReadFile(filepath.Join(dir, "data", "name"))
		if err != nil && !errors.Is(err, os.ErrNotExist) || string(got) != c.want {
			t.Errorf("%s: the place has %q, %v; want %q", c.name, got, err, c.want)
		}
		// And the next exchange succeeds.
		must(t, os.RemoveAll(s.partial()))
		must(t, os.Mkdir(s.partial(), 0o700))
		must(t, os.WriteFile(filepath.Join(s.partial(), "name"), []byte("new"), 0o600))
		must(t, s.exchange())
		if got, _ := os.ReadFile(filepath.Join(dir, "data", "name")); string(got) != "new" {
			t.Errorf("%s: after the next exchange the place has %q", c.name, got)
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("%s: %v are left; want data alone", c.name, names)
		}
	}
}

// TestRefusals: configurations that cannot work, or that lose commits, are refused.
func TestRefusals(t *testing.T) {
	good := Config{Data: "/d", Socket: "/s", Listen: "127.0.0.1:5432", ID: "a", Confirm: 1, Nodes: []Upstream{{ID: "b"}}}
	if _, err := complete(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"107":                   func(c *Config) { c.Socket = "/" + strings.Repeat("s", 100) },
		"HOST:PORT":             func(c *Config) { c.Listen = "here" },
		"want a password":       func(c *Config) { c.Listen = "10.0.0.1:5432" },
		"0 of 1":                func(c *Config) { c.Confirm = 0 },
		"2 of 1":                func(c *Config) { c.Confirm = 2 },
		"absolute":              func(c *Config) { c.Data = "d" },
		"1 to 40":               func(c *Config) { c.ID = "" },
		"lost":                  func(c *Config) { c.Parameters = map[string]string{"Synchronous_Commit": "local"} },
		"sets fsync itself":     func(c *Config) { c.Parameters = map[string]string{"fsync": "off"} },
		"malformed":             func(c *Config) { c.Parameters = map[string]string{"work_mem": "1\nfsync = off"} },
		"more than one line":    func(c *Config) { c.Password = "a\nb" },
		"sets primary_conninfo": func(c *Config) { c.Parameters = map[string]string{"primary_conninfo": ""} },
	} {
		cfg := good
		change(&cfg)
		if _, err := complete(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error with %q", err, want)
		}
	}
}

// TestPump: whole lines are passed on, and the last reason is kept.
func TestPump(t *testing.T) {
	var out strings.Builder
	p := newPump(&out)
	for _, part := range []string{"FATAL:  one", " reason\nHINT:  none\n", `FATAL: service file "x" not found` + "\nre", "st"} {
		if _, err := p.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	if want := "FATAL:  one reason\nHINT:  none\nrest\n"; out.String() != want {
		t.Errorf("%q; want %q", out.String(), want)
	}
	if p.Last() != "FATAL:  one reason" {
		t.Errorf("%q; want the reason", p.Last())
	}
}
