//go:build linux

package http_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/fencing/zombie"
)

const (
	register = fence.Resource("register")
	patience = 30 * time.Second

	envUpstream = "FENCING_HTTP_UPSTREAM"
)

func TestMain(m *testing.M) {
	if os.Getenv(envUpstream) != "" {
		upstream()
		return
	}
	zombie.Main(m, map[string]zombie.Opener{
		"http1":     opener("", 0),
		"h2c":       opener("h2c", 0),
		"upload":    opener("", 256<<10),
		"websocket": openStream,
	})
}

// upstream is a register: a POST of a decimal number to / sets it, once the whole body has
// come and the time of the query after is over, whether a client waits for the answer or
// not; a GET reads it. /busy tells how many POSTs are at work. /stream takes numbers
// over a WebSocket, and answers each. It says its address.
func upstream() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	value, busy := int64(0), 0
	set := func(text string) error {
		v, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			mu.Lock()
			value = v
			mu.Unlock()
		}
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, value)
	})
	mux.HandleFunc("GET /busy", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, busy)
	})
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // half of a body has no effect
		}
		count := func(n int) { mu.Lock(); busy += n; mu.Unlock() }
		count(1)
		defer count(-1)
		if d, err := time.ParseDuration(r.URL.Query().Get("after")); err == nil {
			<-time.After(d)
		}
		line, _, _ := strings.Cut(string(body), "\n")
		if err := set(line); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			_, text, err := c.Read(r.Context())
			if err != nil || set(string(text)) != nil || c.Write(r.Context(), websocket.MessageText, text) != nil {
				return
			}
		}
	})
	fmt.Printf("http://%v\n", l.Addr())
	s := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	_ = s.Serve(l)
}

// process is one that the test has started.
type process struct {
	cmd *exec.Cmd
	log *harness.Buffer
}

// run starts a command, which is killed with the test.
func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, log: new(harness.Buffer)}
	cmd.Stderr = p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		harness.End(p.cmd)
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), p.log)
		}
	})
	return p
}

// startUpstream starts an upstream and returns its URL.
func startUpstream(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envUpstream+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

const secretText = "the-secret-of-the-register"

// secret is what leaders claim with at each proxy.
var secret = func() fencehttp.Secret {
	s, err := fencehttp.ParseSecret(secretText)
	if err != nil {
		panic(err)
	}
	return s
}()

// startProxy starts elect fence proxy, and returns its URL as well.
func startProxy(t testing.TB, elect, upstream, marks string, flags ...string) (*process, string) {
	t.Helper()
	if marks != "" { // flags name another one
		if out, err := exec.Command(elect, "fence", "install", "--at", "file:"+marks, string(register)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	own := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(own, []byte(secretText), 0o600); err != nil {
		t.Fatal(err)
	}
	p := run(t, exec.Command(elect, append([]string{"fence", "proxy", "--claim-secret", own, "--listen", "127.0.0.1:0", "--upstream", upstream, "--resource", string(register), "--mark", "file:" + marks, "--open", "GET"}, flags...)...))
	where := regexp.MustCompile(`guarding \S+ on (\S+) for`)
	var at []string
	harness.Eventually(t, "the proxy serves", func() bool {
		at = where.FindStringSubmatch(p.log.String())
		return at != nil
	})
	return p, "http://" + at[1]
}

// claim claims as a new leader does.
func claim(t testing.TB, at string, token fence.Token) {
	t.Helper()
	if err := claimBy(t.Context(), nil, at, secret, token); err != nil {
		t.Fatal(err)
	}
}

// read reads a number at an upstream.
func read(ctx context.Context, client *http.Client, url string) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// directly reads the register beside all proxies.
func directly(upstream string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) { return read(ctx, http.DefaultClient, upstream+"/") }
}

// busy is how many writes are at work at an upstream.
func busy(t testing.TB, upstream string) int64 {
	t.Helper()
	n, err := read(t.Context(), http.DefaultClient, upstream+"/busy")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// write writes a number, with size bytes beside it.
func write(ctx context.Context, client *http.Client, url string, value int64, size int) error {
	body := io.MultiReader(strings.NewReader(fmt.Sprintln(value)), strings.NewReader(strings.Repeat("x", size)))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", fence.ErrUnknownOutcome, resp.Status)
	}
	return nil
}

// leader is a client that shows the token of its context.
func leader(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &fencehttp.Transport{Resource: register, Base: base}}
}

// client is a leader's end.
type client struct {
	base      string
	transport *http.Transport
	fenced    *http.Client
	size      int
}

// mine is the proxy that a leader uses: the first leader has the first.
func mine(where string) string {
	all := strings.Split(where, ",")
	if os.Getenv("ZOMBIE_ID") == "b" {
		return all[len(all)-1]
	}
	return all[0]
}

// opener opens the register over a protocol, with size bytes beside each number.
func opener(protocol string, size int) zombie.Opener {
	return func(_ context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
		t := &http.Transport{DialContext: steps.Dial, Protocols: new(http.Protocols)}
		t.Protocols.SetHTTP1(protocol != "h2c")
		t.Protocols.SetUnencryptedHTTP2(protocol == "h2c")
		return &client{base: mine(where), transport: t, fenced: leader(t), size: size}, nil
	}
}

// Claim begins with a connection of its own, which is among the steps.
func (c *client) Claim(ctx context.Context, token fence.Token) error {
	c.transport.CloseIdleConnections()
	return claimBy(ctx, c.fenced, c.base, secret, token)
}

func (c *client) Read(ctx context.Context) (int64, error) {
	return read(ctx, &http.Client{Transport: c.transport}, c.base+"/")
}

func (c *client) Write(ctx context.Context, _ fence.Token, value int64) error {
	return write(ctx, c.fenced, c.base+"/", value, c.size)
}

func (c *client) Close() error { return nil }

// stream is a leader that writes over a WebSocket, which it opens with its claim.
type stream struct {
	client
	conn *websocket.Conn
}

func openStream(ctx context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
	c, err := opener("", 0)(ctx, where, steps)
	if err != nil {
		return nil, err
	}
	return &stream{client: *c.(*client)}, nil
}

func (s *stream) Claim(ctx context.Context, token fence.Token) error {
	if s.conn != nil {
		s.conn.CloseNow()
		s.conn = nil
	}
	if err := s.client.Claim(ctx, token); err != nil {
		return err
	}
	conn, err := dialStream(ctx, s.fenced, s.base)
	s.conn = conn
	return err
}

func (s *stream) Write(ctx context.Context, _ fence.Token, value int64) error {
	if s.conn == nil {
		conn, err := dialStream(ctx, s.fenced, s.base)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	return say(ctx, s.conn, value)
}

// dialStream opens a WebSocket; a refusal is an error of the client's transport.
func dialStream(ctx context.Context, client *http.Client, base string) (*websocket.Conn, error) {
	conn, _, err := websocket.Dial(ctx, base+"/stream", &websocket.DialOptions{HTTPClient: client})
	return conn, err
}

// say writes a number and awaits the answer.
func say(ctx context.Context, conn *websocket.Conn, value int64) error {
	if err := conn.Write(ctx, websocket.MessageText, fmt.Append(nil, value)); err != nil {
		return err
	}
	_, _, err := conn.Read(ctx)
	return err
}

// serveProxy serves a proxy in the process of the test.
func serveProxy(t testing.TB, upstream string, mark fence.Mark, cfg fence.GuardConfig) string {
	t.Helper()
	at, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := fence.NewGuard(mark, []fence.Resource{register}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h, err := fencehttp.NewProxy(guard, at, nil, fencehttp.Config{MayClaim: fencehttp.Anyone, Open: func(r *http.Request) bool { return r.Method == http.MethodGet && !fencehttp.IsUpgrade(r) }})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, h)
}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); _ = s.Listener.Close() }) // no client waits for a frozen leader
	return s.URL
}

// claimBy claims by a client.
func claimBy(ctx context.Context, by *http.Client, at string, shown fencehttp.Secret, token fence.Token) error {
	c, err := fencehttp.NewClient(at, register, fencehttp.ClientConfig{HTTP: by, Secret: shown})
	if err != nil {
		return err
	}
	return c.Claim(ctx, token)
}

// highest is the mark of the register.
func highest(ctx context.Context, at string) (fence.Token, error) {
	c, err := fencehttp.NewClient(at, register, fencehttp.ClientConfig{})
	if err != nil {
		return 0, err
	}
	return c.Highest(ctx)
}
