package fenceetcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/electd/elect/fence"
)

// at is the guard of r at an etcd in memory.
func at(t *testing.T, cfg Config) (*etcd, *Guard) {
	t.Helper()
	e, kv := newEtcd()
	f, err := New(kv, "r", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, f
}

func wantStale(t *testing.T, err error, shown, highest fence.Token) {
	t.Helper()
	s, ok := errors.AsType[*fence.StaleError](err)
	if !ok || *s != (fence.StaleError{Shown: shown, Highest: highest}) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("got %v; want stale: %v shown, %v highest", err, shown, highest)
	}
}

// TestOrder: of any two tokens the greater one passes after the smaller one, equal ones pass,
// and the smaller one is refused after the greater one and changes nothing. The marks
// are compared as text, to the last: above 2^63-1 the comparison is with 2^63.
func TestOrder(t *testing.T) {
	era, _ := fence.NewToken(1, 1)
	tokens := []fence.Token{
		1, 2, 8, 9, 10, 11, 99, 100, fence.MaxCount, era, 1<<53 - 1, 1<<53 + 1, 1<<53 + 2,
		999_999_999_999_999_999, 1_000_000_000_000_000_000, 1<<62 + 1, fence.MaxToken - 1, fence.MaxToken,
	}
	if !slices.IsSorted(tokens) {
		t.Fatal("the tokens are not in order")
	}
	for i, highest := range tokens {
		for _, token := range tokens {
			e, f := at(t, Config{})
			if err := f.Claim(t.Context(), highest); err != nil {
				t.Fatal(err)
			}
			_, err := f.Write(t.Context(), token, clientv3.OpPut("k", "applied"))
			mark := e.text(f.MarkKey())
			if token < highest {
				wantStale(t, err, token, highest)
				if e.text("k") != "" || mark != highest.Fixed() {
					t.Errorf("%v after %v: it has changed the key to %q, and the mark to %s", token, highest, e.text("k"), mark)
				}
				continue
			}
			if err != nil || e.text("k") != "applied" || mark != token.Fixed() || len(mark) != len(below)+1 {
				t.Errorf("%v after %v: %v, the key is %q, and the mark %s", token, highest, err, e.text("k"), mark)
			}
		}
		if i > 0 && tokens[i-1].Fixed() >= highest.Fixed() {
			t.Errorf("%v is not before %v, as text", tokens[i-1], highest)
		}
	}
	if zero := fence.Token(0).Fixed(); zero <= below || (fence.MaxToken+1).Fixed() <= fence.MaxToken.Fixed() {
		t.Errorf("%s, %s, or 2^63 is out of order", below, zero)
	}
}

// TestNothingIsAsked of what is wrong by itself, nor when its context has ended.
func TestNothingIsAsked(t *testing.T) {
	e, f := at(t, Config{})
	mine := errors.New("the caller's")
	ended, end := context.WithCancelCause(t.Context())
	end(mine)
	e.requests = 0
	negative := -5
	for token, want := range map[fence.Token]error{
		0: fence.ErrMissing, 1 << 48: fence.ErrToken, fence.MaxToken + 1: fence.ErrToken, fence.Token(negative): fence.ErrToken, 1<<64 - 1: fence.ErrToken,
	} {
		_, err := f.Write(t.Context(), token, clientv3.OpPut("k", "applied"))
		wantError(t, err, want)
		wantError(t, f.Claim(t.Context(), token), want)
		wantError(t, f.mark.Raise(t.Context(), "r", token), want)
	}
	for _, name := range []fence.Resource{"", "no name", "r\n", "r\x00", "rö", "r*", fence.Resource(strings.Repeat("r", fence.MaxResource+1))} {
		_, err := New(f.mark.kv, name, Config{})
		_, highest := f.mark.Highest(t.Context(), name)
		for _, err := range []error{err, highest, f.mark.Raise(t.Context(), name, 5), f.mark.Install(t.Context(), name), f.mark.Uninstall(t.Context(), name)} {
			wantError(t, err, fence.ErrResource)
		}
	}
	for _, none := range []Key{{}, {Name: "k"}, {Revision: 1}, {Name: "k", Revision: -1}} {
		wantError(t, none.Claim(t.Context(), f.mark.kv), fence.ErrMissing)
	}
	for _, none := range []Key{{Name: "k", Revision: fence.MaxCount + 1}, {Name: "k", Revision: 1, Era: fence.MaxEra + 1}} {
		wantError(t, none.Claim(t.Context(), f.mark.kv), fence.ErrToken)
	}
	for _, err := range []error{f.Claim(ended, 5), Key{Name: "k", Revision: 1}.Claim(ended, f.mark.kv)} {
		wantError(t, err, mine)
		if errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("%v; nothing was sent", err)
		}
	}
	if e.requests > 0 {
		t.Errorf("etcd was asked %d times", e.requests)
	}
}

// TestMissing: a resource that is not installed, or was removed, lets nobody pass, and its
// mark is no 0.
func TestMissing(t *testing.T) {
	e, f := at(t, Config{Prefix: "marks/"})
	if err := f.Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if err := f.mark.Install(t.Context(), "r"); err != nil || e.text("marks/r") != fence.Token(5).Fixed() {
		t.Errorf("added again: %v, and the mark is %q", err, e.text("marks/r"))
	}
	if err := f.mark.Uninstall(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []fence.Resource{"r", "never"} {
		_, highest := f.mark.Highest(t.Context(), name)
		for _, err := range []error{f.mark.Raise(t.Context(), name, fence.MaxToken), highest} {
			wantError(t, err, fence.ErrResource)
			if !strings.Contains(err.Error(), "marks/") {
				t.Errorf("%v; want it to name the key", err)
			}
		}
	}
	if len(e.keys) != 0 {
		t.Errorf("there are keys: %v", e.keys)
	}
}

// marks are what may be found where a mark should be.
var marks = []struct {
	text  string
	token fence.Token
	ok    bool
}{
	{"0000000000000000000", 0, true},
	{"0000000000000000042", 42, true},
	{"9223372036854775807", fence.MaxToken, true},
	{"", 0, false},
	{"0", 0, false},
	{"42", 0, false},
	{"000000000000000000", 0, false},
	{"00000000000000000042", 0, false},
	{"9223372036854775808", 0, false},
	{"-000000000000000042", 0, false},
	{"+000000000000000042", 0, false},
	{" 000000000000000042", 0, false},
	{"000000000000000042 ", 0, false},
	{"0000000000000000042\n", 0, false},
	{"0x00000000000000042", 0, false},
	{"000000000000000004²", 0, false},
	{"0000281474976710656", 0, false}, // 2^48: an era without a count
	{"forty-two", 0, false},
	{strings.Repeat("9", 1<<16), 0, false},
}

// TestForeignMarks: what no Guard has written is no mark, and is said to be none. etcd
// compares it as text all the same: a token passes that is after it in that order, and
// replaces it, and no other does.
func TestForeignMarks(t *testing.T) {
	for _, m := range marks {
		e, f := at(t, Config{})
		e.put(f.MarkKey(), m.text)
		highest, err := f.mark.Highest(t.Context(), "r")
		_, all := f.Status(t.Context())
		if m.ok != (err == nil) || m.ok != (all == nil) || highest != m.token || !m.ok && !errors.Is(err, errMark) {
			t.Errorf("%.30q: %v, %v, %v", m.text, highest, err, all)
		}
		for _, token := range []fence.Token{1, 41, fence.MaxToken} {
			e.put(f.MarkKey(), m.text)
			_, err = f.Write(t.Context(), token, clientv3.OpPut("k", token.String()))
			passes := m.text > below && m.text < (token+1).Fixed()
			if passes != (err == nil) || passes != (e.text("k") == token.String()) || passes && m.ok && token < m.token {
				t.Errorf("%.30q, written with %v: %v, and the key is %q", m.text, token, err, e.text("k"))
			}
			if err != nil && (errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) != m.ok) {
				t.Errorf("%.30q, written with %v: %v", m.text, token, err)
			}
		}
	}
}

// FuzzParseMark: a mark is read only from what a Guard writes, and what is read is in the
// order in which etcd compares it.
func FuzzParseMark(f *testing.F) {
	for _, m := range marks {
		f.Add([]byte(m.text), uint64(42))
	}
	f.Fuzz(func(t *testing.T, value []byte, other uint64) {
		token, err := parseMark(&mvccpb.KeyValue{Key: []byte("k"), Value: value})
		if err != nil {
			if token != 0 || !errors.Is(err, errMark) || len(err.Error()) > 1000 {
				t.Errorf("%q: %v, %v", value, token, err)
			}
			return
		}
		if token != 0 && !token.Valid() || token.Fixed() != string(value) || string(value) <= below {
			t.Errorf("%q is read as %d", value, uint64(token))
		}
		o := fence.Token(other)
		if o.Valid() && (token <= o) != (string(value) < (o+1).Fixed()) {
			t.Errorf("the mark %d and the token %d are in another order as text", uint64(token), other)
		}
	})
}

func TestStatus(t *testing.T) {
	_, f := at(t, Config{})
	if err := f.Claim(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if s, err := f.Status(t.Context()); err != nil || s != (State{Highest: 7, Revision: 2}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// outcomes are errors of etcd and its client, and whether it is known after them that
// nothing was applied.
var outcomes = []struct {
	err   error
	known bool
}{
	{rpctypes.ErrGRPCEmptyKey, true},
	{rpctypes.ErrGRPCTooManyOps, true},
	{rpctypes.ErrGRPCDuplicateKey, true},
	{rpctypes.ErrGRPCRequestTooLarge, true},
	{rpctypes.ErrGRPCKeyNotFound, true},
	{rpctypes.ErrGRPCAuthFailed, true},
	{rpctypes.ErrGRPCAuthOldRevision, true},
	{rpctypes.ErrGRPCUserEmpty, true},
	{rpctypes.ErrGRPCPermissionDenied, true},
	{rpctypes.ErrGRPCInvalidAuthToken, true},
	{rpctypes.ErrGRPCLeaseNotFound, true},
	{rpctypes.ErrGRPCCompacted, true},
	{rpctypes.ErrGRPCFutureRev, true},

	{rpctypes.ErrGRPCNoSpace, false}, // it is applied when the quota is met
	{rpctypes.ErrGRPCRequestTooManyRequests, false},
	{rpctypes.ErrGRPCNoLeader, false},
	{rpctypes.ErrGRPCNotLeader, false},
	{rpctypes.ErrGRPCLeaderChanged, false},
	{rpctypes.ErrGRPCStopped, false},
	{rpctypes.ErrGRPCTimeout, false},
	{rpctypes.ErrGRPCTimeoutDueToLeaderFail, false},
	{rpctypes.ErrGRPCTimeoutDueToConnectionLost, false},
	{rpctypes.ErrGRPCUnhealthy, false},
	{rpctypes.ErrGRPCCorrupt, false},
	{rpctypes.ErrGRPCCanceled, false},
	{rpctypes.ErrGRPCDeadlineExceeded, false},
	{status.Error(codes.InvalidArgument, "somebody else's"), false},
	{status.Error(codes.PermissionDenied, "somebody else's"), false},
	{status.Error(codes.Unauthenticated, "somebody else's"), false},
	{status.Error(codes.NotFound, "somebody else's"), false},
	{status.Error(codes.OutOfRange, "somebody else's"), false},
	{status.Error(codes.Unavailable, "connection refused"), false},
	{status.Error(codes.ResourceExhausted, "grpc: trying to send message larger than max"), false},
	{status.Error(codes.Canceled, "grpc: the client connection is closing"), false},
	{status.Error(codes.Internal, "stream terminated by RST_STREAM"), false},
	{context.DeadlineExceeded, false},
	{context.Canceled, false},
	{errors.New("anything"), false},
}

// TestOutcome: an error is a refusal only where etcd says so, whatever the code of others'
// errors; what etcd has answered stays in the chain.
func TestOutcome(t *testing.T) {
	for _, c := range outcomes {
		e, f := at(t, Config{})
		e.put("election/a", "leads")
		key := Key{Name: "election/a", Revision: e.revision}
		for name, do := range map[string]func() error{
			"claim":           func() error { return f.Claim(t.Context(), 5) },
			"raise":           func() error { return f.mark.Raise(t.Context(), "r", 5) },
			"add":             func() error { return f.mark.Install(t.Context(), "s") },
			"remove":          func() error { return f.mark.Uninstall(t.Context(), "s") },
			"write of a term": func() error { _, err := key.Write(t.Context(), f.mark.kv, clientv3.OpPut("k", "")); return err },
		} {
			e.answers = []lost{{err: c.err}}
			err := do()
			if err == nil || errors.Is(err, fence.ErrUnknownOutcome) == c.known || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrResource) {
				t.Errorf("%s, %v: %v", name, c.err, err)
			}
			want := rpctypes.Error(c.err)
			if _, ok := errors.AsType[rpctypes.EtcdError](want); ok && !errors.Is(err, want) {
				t.Errorf("%s: %v; want %v in its chain", name, err, want)
			}
		}
		e.answers = []lost{{err: c.err}}
		if _, err := f.mark.Highest(t.Context(), "r"); err == nil || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("a read, %v: %v; want its error, and nothing unknown of it", c.err, err)
		}
	}
}

// TestClaimedAgain: a claim whose answer was lost is confirmed when it is made again, and
// the write of an earlier leader that comes late is refused.
func TestClaimedAgain(t *testing.T) {
	e, f := at(t, Config{})
	e.answers = []lost{{err: rpctypes.ErrGRPCTimeout, applied: true}}
	wantError(t, f.Claim(t.Context(), 5), fence.ErrUnknownOutcome)
	_, err := f.Write(t.Context(), 4, clientv3.OpPut("k", "late"))
	wantStale(t, err, 4, 5)
	wantError(t, f.Claim(t.Context(), 5), nil)
}

// TestLogged: what is logged, and as what, and what is counted. An unknown outcome is not
// called a refusal.
func TestLogged(t *testing.T) {
	var lines strings.Builder
	var counted []fence.Result
	e, f := at(t, Config{Logger: slog.New(slog.NewJSONHandler(&lines, nil)), Observe: func(d fence.Decision) { counted = append(counted, d.Result) }})
	do := func(name fence.Resource, token fence.Token, instead ...lost) {
		e.answers = instead
		_ = f.mark.Raise(t.Context(), name, token)
	}
	do("r", 5)
	do("r", 4)
	do("r", 0)
	do("r", 1<<48)
	do("s", 5)
	do("no name", 5)
	do("r", 6, lost{err: rpctypes.ErrGRPCTimeout, applied: true})
	do("r", 7, lost{err: rpctypes.ErrGRPCPermissionDenied})
	var got []string
	for line := range strings.Lines(lines.String()) {
		var l struct{ Level, Msg, Resource, Token, Shown, Result, Error string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintln(l.Level, l.Msg, l.Resource, l.Token+l.Shown, l.Result)))
		if (l.Level == "WARN") != (l.Error != "") {
			t.Errorf("%s; want the error with each warning", line)
		}
	}
	want := []string{
		"INFO claimed r 5",
		"WARN refused r 4 stale",
		"WARN refused r 0 missing",
		"WARN refused r 281474976710656 malformed",
		"WARN refused s 5 foreign",
		"WARN refused no name 5 foreign",
		"WARN outcome unknown r 6 failed",
		"WARN failed r 7 failed",
	}
	if all := ([]fence.Result{fence.Passed, fence.Stale, fence.Missing, fence.Malformed, fence.Foreign, fence.Foreign, fence.Failed, fence.Failed}); !slices.Equal(counted, all) {
		t.Errorf("counted %v\nwant %v", counted, all)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
