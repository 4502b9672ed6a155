package fenceredis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
)

// wire is a server that speaks RESP2 and answers as a test says.
type wire struct {
	t *testing.T

	// answer is called with each script that arrives, by the goroutine of its connection.
	// That is closed after an answer that has no end.
	answer func(n int, command []string) string

	mu       sync.Mutex
	commands [][]string
}

// startWire returns a guard of "r" whose client would try five times more. Its pool has one
// connection, so that an answer that is left in it would meet the next command.
func startWire(t *testing.T, patience time.Duration, answer func(n int, command []string) string) (*wire, *Guard) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, answer: answer}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.serve(conn) })
		}
	})
	client := redis.NewClient(&redis.Options{
		Addr: l.Addr().String(), Protocol: 2, DisableIdentity: true, PoolSize: 1,
		MaxRetries: 5, MinRetryBackoff: time.Microsecond, MaxRetryBackoff: time.Millisecond, ReadTimeout: patience,
	})
	t.Cleanup(func() {
		_ = client.Close()
		_ = l.Close()
		all.Wait()
	})
	g, err := New(client, "r", Config{})
	if err != nil {
		t.Fatal(err)
	}
	return w, g
}

func (w *wire) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch strings.ToUpper(command[0]) {
		case "HELLO":
			reply = "-ERR unknown command\r\n"
		case "EVALSHA", "EVAL":
			w.mu.Lock()
			n := len(w.commands)
			w.commands = append(w.commands, command)
			w.mu.Unlock()
			reply = w.answer(n, command)
		}
		if _, err := io.WriteString(conn, reply); err != nil || !strings.HasSuffix(reply, "\r\n") {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	count := func(mark byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 3 || line[0] != mark {
			return 0, fmt.Errorf("%q, %w; want %q", line, err, mark)
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := count('*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := count('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, nil
}

// sent is what has arrived by now.
func (w *wire) sent() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commands
}

const patient = 30 * time.Second

// TestSentOnce: whatever Redis answers, and also when it does not, a write is sent once,
// though the client would try again. What it has answered with an error is no unknown
// outcome, and no refusal of the guard's.
func TestSentOnce(t *testing.T) {
	for _, answer := range []string{
		"-LOADING Redis is loading the dataset in memory",
		"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"-OOM command not allowed when used memory > 'maxmemory'. script: 0123, on @user_script:1.",
		"-READONLY You can't write against a read only replica.",
		"-READONLY You can't write against a read only replica. script: 0123, on @user_script:13.",
		"-MISCONF Errors writing to the AOF file: No space left on device",
		"-NOREPLICAS Not enough good replicas to write.",
		"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"-CLUSTERDOWN The cluster is down",
		"-TRYAGAIN Multiple keys request during rehashing of slot",
		"-MOVED 3999 127.0.0.1:6381",
		"-ASK 3999 127.0.0.1:6381",
		"-CROSSSLOT Keys in request don't hash to the same slot",
		"-NOPERM this user has no permissions to run the 'evalsha' command",
		"-WRONGTYPE Operation against a key holding the wrong kind of value script: 0123, on @user_script:14.",
		"-ERR max number of clients reached",
		"-ERR Error running script (call to f_0123): @user_script:13: Script killed by user with SCRIPT KILL...",
		"-EXECABORT Transaction discarded because of previous errors.",
		"-UNKNOWN anything",
		"", // the connection ends
		"*1\r\n$5\r\nhal",
		"*2\r\n+OK",
	} {
		reply := answer
		if strings.HasPrefix(answer, "-") {
			reply += "\r\n"
		}
		w, g := startWire(t, patient, func(int, []string) string { return reply })
		_, err := g.Write(t.Context(), 5, Set(g.Key("k"), 1))
		if n := len(w.sent()); n != 1 {
			t.Errorf("%s: it was sent %d times", answer, n)
		}
		_, isAnswer := errors.AsType[redis.Error](err)
		if err == nil || isAnswer != strings.HasPrefix(answer, "-") || errors.Is(err, fence.ErrUnknownOutcome) == isAnswer ||
			errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrResource) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// TestNoScript: a script that Redis does not know is sent as a whole, once.
func TestNoScript(t *testing.T) {
	for _, second := range []string{"*1\r\n+OK\r\n", "-NOSCRIPT No matching script.\r\n", ""} {
		w, g := startWire(t, patient, func(n int, _ []string) string {
			if n == 0 {
				return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
			}
			return second
		})
		replies, err := g.Write(t.Context(), 5, Set(g.Key("k"), "v"))
		if (err == nil) != strings.HasPrefix(second, "*") || err == nil && fmt.Sprint(replies) != "[OK]" || errors.Is(err, fence.ErrUnknownOutcome) != (second == "") {
			t.Errorf("%q: %v, %v", second, replies, err)
		}
		sent := w.sent()
		want := []string{"EVALSHA", g.single.sha, "2", "{r}:elect:fence", "{r}:k", "5", "SET", "v"}
		if len(sent) != 2 || !slices.Equal(sent[0], want) {
			t.Fatalf("%q: it has sent %q; want %q first of two", second, sent, want)
		}
		want[0], want[1] = "EVAL", g.single.source
		if !slices.Equal(sent[1], want) {
			t.Errorf("%q: it has sent %q; want %q", second, sent[1], want)
		}
	}
}

// TestLateAnswer: an answer for which nobody waits any more is not taken for that of the
// next write.
func TestLateAnswer(t *testing.T) {
	gaveUp, sent := make(chan bool), make(chan bool)
	w, g := startWire(t, 100*time.Millisecond, func(n int, _ []string) string {
		if n == 0 {
			<-gaveUp
			defer close(sent)
			return "*1\r\n+first\r\n"
		}
		return "-STALETOKEN 6\r\n"
	})
	if _, err := g.Write(t.Context(), 5, Set(g.Key("k"), 1)); !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("%v; want an unknown outcome", err)
	}
	close(gaveUp)
	<-sent
	for range 3 {
		replies, err := g.Write(t.Context(), 5, Set(g.Key("k"), 2))
		if !errors.Is(err, fence.ErrStale) || replies != nil {
			t.Fatalf("%v, %v; want the refusal", replies, err)
		}
	}
	if n := len(w.sent()); n != 4 {
		t.Errorf("%d commands have arrived; want 4", n)
	}
}
