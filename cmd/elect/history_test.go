package main

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer"
)

// TestHistoryTable: neither an end that was noticed late nor one that nobody told
// of reads as if two had led.
func TestHistoryTable(t *testing.T) {
	e := func(second int, event, leader string, token fence.Token, reason string) peer.Event {
		return peer.Event{At: time.Unix(int64(second), 0), Event: event, Leader: leader, Token: token, Reason: reason}
	}
	events := []peer.Event{
		e(1, "elected", "n1", 1, ""), e(1, "active", "n1", 1, ""), e(5, "lost", "n1", 1, "resigned"),
		e(6, "elected", "n2", 2, ""), e(6, "active", "n2", 2, ""), e(20, "lost", "n2", 2, "lapsed"),
		e(9, "elected", "n3", 3, ""), e(10, "active", "n3", 3, ""),
		e(30, "elected", "n1", 5, ""), e(31, "lost", "n1", 5, "superseded"),
		e(32, "follows", "n2", 6, ""),
	}
	want := []string{
		"elected n1 1 -", "active n1 1 -", "lost n1 1 resigned",
		"elected n2 2 -", "active n2 2 -", "lost n2 2 lapsed; noticed late, or clocks differ: n3 was active before",
		"elected n3 3 -", "active n3 3 -",
		"elected n1 5 n3 reported no end", "lost n1 5 superseded",
		"follows n2 6 -",
	}
	var table strings.Builder
	if err := writeHistory(&table, events); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(rows(table.String())), "\n")[1:]
	if len(lines) != len(want) {
		t.Fatalf("%d rows; want %d:\n%s", len(lines), len(want), table.String())
	}
	for i, line := range lines {
		if _, got, _ := strings.Cut(line, " "); got != want[i] {
			t.Errorf("row %d: %q; want %q", i, got, want[i])
		}
	}
}
