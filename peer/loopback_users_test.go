//go:build unix

package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// partEnv makes the test's own program the part that it names, of which there may be
// one for each user.
const partEnv = "PEER_TEST_PART"

func servePart() {
	var err error
	switch os.Getenv(partEnv) {
	case "":
		return
	case "owner":
		err = owner()
	case "attacker":
		err = attacker()
	case "identity":
		err = showIdentity()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// scene is what the parts are told.
type scene struct {
	Voters []Peer
	Data   string
	Target NodeStatus // for the attacker: of the leader, as its owner sees it
}

func (s *scene) config(id protocol.NodeID) setup {
	// A promise that a busy machine keeps: the nodes end when their leader does.
	return setup{ID: id, Name: "job", Voters: s.Voters, Config: Config{Data: s.Data, Heartbeat: testHeartbeat, Promise: 10 * testPromise}}
}

// owner runs the three nodes, of which n1 leads. For each line it says how they are.
func owner() error {
	var s scene
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	nodes := map[protocol.NodeID]*Node{}
	for _, p := range s.Voters {
		n, err := open(ctx, s.config(protocol.NodeID(p.ID)))
		if err != nil {
			return err
		}
		defer n.Close()
		nodes[protocol.NodeID(p.ID)] = n
	}
	m, err := nodes["n1"].Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for {
		statuses := []NodeStatus{}
		for _, p := range s.Voters {
			statuses = append(statuses, nodes[protocol.NodeID(p.ID)].Status())
		}
		if err := m.Check(); err != nil {
			return fmt.Errorf("the leader: %w", err)
		}
		if err := out.Encode(statuses); err != nil {
			return err
		}
		var line string
		if err := in.Decode(&line); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// attacker tries what a client or a witness could do to the nodes of another user, with each identity that it can show,
// and prints the result, a line each.
func attacker() error {
	var s scene
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	report := func(way, what string, err error) { fmt.Printf("%s: %s: %.300q\n", way, what, fmt.Sprint(err)) }
	try := func(way string, change func(*setup)) {
		cfg := s.config("")
		change(&cfg)
		c, err := newClient(cfg)
		if err != nil {
			report(way, "client", err)
			return
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience())
		defer cancel()
		for _, r := range c.Statuses(ctx) {
			report(way, "status", r.Err)
		}
		report(way, "resign", c.Resign(ctx, 0))
		report(way, "resign by token", c.Resign(ctx, s.Target.Token))
		report(way, "transfer", c.Transfer(ctx, s.Target.Token, "n2"))
		report(way, "pause", c.Pause(ctx, "n2"))
		_, err = c.RemoveMember(ctx, "n3", func(string) {})
		report(way, "member remove", err)
		// With what the nodes have told their owner, past all that looks for a leader.
		for _, p := range s.Voters {
			_, err := c.ask(ctx, p, 3*time.Second, verbResign, s.Target.Token, appointment{}, ignore)
			report(way, "resign at "+string(p.ID), err)
		}
		dir, err := protocol.ParseDirID(s.Target.Dir)
		if err != nil {
			report(way, "the directory's id", err)
			return
		}
		t := testament{
			Version: testamentVersion, access: access{Cluster: s.Target.Cluster, Election: s.Target.Election, Own: c.cfg.own}, ID: protocol.NodeID(s.Target.ID), Dir: dir,
			Incarnation: s.Target.Incarnation, Voters: map[protocol.NodeID]string{}, Idle: time.Second,
		}
		if cfg.Insecure {
			t.Own = ""
		}
		for _, p := range s.Voters {
			if p.ID != string(t.ID) {
				t.Voters[protocol.NodeID(p.ID)] = p.Addr
			}
		}
		text, err := json.Marshal(t)
		if err != nil {
			report(way, "witness", nil) // which fails the test
			return
		}
		speak, err := Witness(ctx, text)
		if err == nil {
			short, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			err = speak(short)
		}
		report(way, "witness", err)
	}
	try("nothing", func(*setup) {})
	try("plain text", func(c *setup) { c.Insecure = true })
	for _, p := range s.Voters { // an authority of its own, with all of the ids
		cfg := s.config(protocol.NodeID(p.ID))
		if _, err := cfg.identity(); err != nil {
			return err
		}
	}
	try("own certificates", func(*setup) {})
	for _, p := range s.Voters { // and without looking at the node's
		report("own certificates", "blind", blind(s.config(protocol.NodeID(s.Target.ID)), p.Addr, &s.Target))
	}
	return nil
}

// blind says the leader's end at a node whose certificate it does not look at, and
// returns how the node refuses.
func blind(cfg setup, addr string, target *NodeStatus) error {
	if _, err := cfg.identity(); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(cfg.own, string(cfg.ID)+".crt"), filepath.Join(cfg.own, string(cfg.ID)+".key"))
	if err != nil {
		return err
	}
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	text, err := wire.Append(nil, &wire.Frame{Hello: &wire.Hello{
		Version: wire.Version, Oldest: wire.Oldest, Caller: wire.WitnessOf, Cluster: cfg.Cluster, ID: protocol.NodeID(target.ID), Life: 7,
	}})
	if err == nil {
		_, err = c.Write(text)
	}
	if err != nil {
		return err
	}
	f, err := wire.NewReader(c, wire.MaxFrame).Next()
	if err == nil && f.Refusal != nil && f.Refusal.Code == wire.CodeCertificate {
		err = f.Refusal
	}
	return err
}

func showIdentity() error {
	var s scene
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	cfg := s.config(protocol.NodeID(s.Voters[0].ID))
	id, err := cfg.identity()
	fmt.Println(id)
	return err
}

// part starts one as a user, with a state directory of that user's.
func part(t *testing.T, name string, uid int, state string, s *scene) (in *json.Encoder, out *bufio.Scanner, end func() error, kill func()) {
	t.Helper()
	cmd := exec.Command(program(t))
	cmd.Env = append(os.Environ(), partEnv+"="+name, "XDG_STATE_HOME="+state)
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	cmd.Stderr = testWriter{t, protocol.NodeID(name)}
	stdin, stdout := harness.Start(t, cmd)
	kill = func() { _ = cmd.Process.Kill() }
	late := time.AfterFunc(2*patience(), kill)
	end = func() error {
		_ = stdin.Close()
		err := cmd.Wait()
		late.Stop()
		return err
	}
	in, out = json.NewEncoder(stdin), bufio.NewScanner(stdout)
	out.Buffer(nil, 1<<20)
	if err := in.Encode(s); err != nil {
		t.Fatal(err)
	}
	return in, out, end, kill
}

// program is the test's own, where each user can run it.
func program(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Args[0]
	}
	data, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(everybodys(t), "peer.test")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// everybodys is a directory that each user can read.
func everybodys(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer-test-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// ownedBy makes a directory of that user's.
func ownedBy(t *testing.T, uid int, path string) string {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, uid, uid); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUsersApart: on the loopback without certificates, another user than that of the
// nodes is refused whatever it tries, and the nodes take no notice.
func TestUsersApart(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: that other users are refused; it needs root, to be two users")
	}
	for _, c := range []struct{ owner, attacker int }{{0, 65534}, {65534, 65533}} {
		t.Run(fmt.Sprintf("%d attacks %d", c.attacker, c.owner), func(t *testing.T) {
			t.Parallel()
			dir := everybodys(t)
			s := scene{Data: ownedBy(t, c.owner, filepath.Join(dir, "data"))}
			for _, id := range names("n", 3) {
				s.Voters = append(s.Voters, Peer{ID: string(id), Addr: harness.FreeAddr(t)})
			}
			ask, answers, end, _ := part(t, "owner", c.owner, ownedBy(t, c.owner, filepath.Join(dir, "owner")), &s)
			are := func() (all []NodeStatus) {
				t.Helper()
				if !answers.Scan() {
					t.Fatalf("the nodes have ended: %v, %v", answers.Err(), end())
				}
				if err := json.Unmarshal(answers.Bytes(), &all); err != nil {
					t.Fatal(err)
				}
				return all
			}
			before := are()
			s.Target = before[0]
			if s.Target.Token == 0 || s.Target.Incarnation == 0 {
				t.Fatalf("n1 does not lead: %+v", s.Target)
			}
			_, lines, ended, _ := part(t, "attacker", c.attacker, ownedBy(t, c.attacker, filepath.Join(dir, "attacker")), &s)
			tried := 0
			for lines.Scan() {
				tried++
				if line := lines.Text(); strings.HasSuffix(line, `: "<nil>"`) {
					t.Errorf("not refused: %s", line)
				} else if t.Log(line); strings.HasPrefix(line, "own certificates: status") && !strings.Contains(line, "signed by another CA") ||
					strings.HasPrefix(line, "nothing: status") && !strings.Contains(line, "it is not of this user (uid ") {
					t.Errorf("it does not say what is wrong: %s", line)
				}
			}
			if err := ended(); err != nil {
				t.Fatal(err)
			}
			if want := 3*12 + 3; tried != want {
				t.Errorf("%d attempts; want %d", tried, want)
			}
			if err := ask.Encode("and now?"); err != nil {
				t.Fatal(err)
			}
			for i, now := range are() {
				if was := before[i]; now.Token != was.Token || now.Paused || now.Leader == nil || now.Leader.Token != s.Target.Leader.Token || now.Membership.id() != s.Target.Membership.id() {
					t.Errorf("%s was %+v, and is %+v", now.ID, was, now)
				}
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestProcessesMakeOneAuthority: nodes that are started in the same instant, each a
// process of its own.
func TestProcessesMakeOneAuthority(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		state := t.TempDir()
		var texts []func() string
		for _, id := range names("n", 3) {
			_, out, end, _ := part(t, "identity", os.Geteuid(), state, &scene{Voters: []Peer{{ID: string(id), Addr: "127.0.0.1:1"}}})
			texts = append(texts, func() string {
				out.Scan()
				text := out.Text()
				if err := end(); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				return text
			})
		}
		authorities := map[string]bool{}
		for i, text := range texts {
			said := text()
			who, key, _ := strings.Cut(said, ", ")
			if want := fmt.Sprintf("n%d of cluster elect", i+1); who != want {
				t.Errorf("round %d: %q; want %s", round, said, want)
			}
			authorities[key] = true
		}
		if len(authorities) != 1 {
			t.Fatalf("round %d: %d authorities: %v", round, len(authorities), authorities)
		}
	}
}

// TestKilledWhileMaking: a process that is killed when it has begun to make certificates
// leaves nothing that keeps the next from making them.
func TestKilledWhileMaking(t *testing.T) {
	for round := range 10 {
		base, _ := inState(t)
		files := func() []string {
			all, _ := filepath.Glob(filepath.Join(base, "*", "*")) // of a pattern that is right it never fails
			return all
		}
		_, _, end, kill := part(t, "identity", os.Geteuid(), filepath.Dir(base), &scene{Voters: []Peer{{ID: "n1", Addr: "127.0.0.1:1"}}})
		eventually(t, func() bool { return len(files()) > 0 }, func() string { return "nothing is made" })
		kill()
		_ = end() // killed, or done
		t.Logf("round %d: %d files were there", round, len(files()))
		made(t, "n1")
	}
}
