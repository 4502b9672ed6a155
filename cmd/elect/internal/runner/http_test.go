package runner

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/electd/elect/electhttp"
)

// serving starts the server of a test, and returns its address.
func serving(t *testing.T, s *HTTP) (addr string, end func()) {
	t.Helper()
	var err error
	if s.Handler, err = electhttp.New(electhttp.Config{Name: "job", ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if s.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	end = s.Serve(slog.New(slog.DiscardHandler))
	t.Cleanup(end)
	return s.Listener.Addr().String(), end
}

func TestHTTPOverTLS(t *testing.T) {
	model := httptest.NewTLSServer(nil) // its certificate, and a client that trusts it
	defer model.Close()
	addr, _ := serving(t, &HTTP{Certificate: &model.TLS.Certificates[0]})
	resp, err := model.Client().Get("https://" + addr + "/follower")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "does not lead\n" || resp.TLS == nil {
		t.Errorf("%s: %q", resp.Status, body)
	}
}

// The end waits for no client, whether it watches or sends nothing.
func TestHTTPEndsAtOnce(t *testing.T) {
	addr, end := serving(t, &HTTP{})
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	resp, err := http.Get("http://" + addr + "/v1/elections/job/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	end()
	_, _ = io.Copy(io.Discard, resp.Body) // until the server has cut it
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("the server still listens")
	}
}

// accepted is the server's end of a connection, with the client's.
func accepted(t *testing.T, l *bounded) (server *slot, client net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*slot), client
}

// When there is no room, the connection that has had no request for longest makes room, and none that has one.
func TestBoundedConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newBounded(inner, 2)
	for range 3 {
		c, _ := accepted(t, l)
		_ = c.Close()
		_ = c.Close() // frees nothing
	}
	works, _ := accepted(t, l)
	works.work()
	silent, gone := accepted(t, l)
	next, _ := accepted(t, l)
	if n, err := gone.Read(make([]byte, 1)); n != 0 || err == nil || l.all[silent] || !l.all[works] {
		t.Errorf("the silent connection was not closed: %v", err)
	}
	next.work()
	waits := make(chan *slot)
	go func() {
		c, _ := accepted(t, l)
		waits <- c
	}()
	works.rest()
	works.work()
	_ = next.Close()
	last := <-waits
	if len(l.slots) != 2 || !l.all[works] || !l.all[last] {
		t.Errorf("%d connections are open", len(l.slots))
	}
	_ = l.Close()
	if _, err := l.Accept(); err == nil || len(l.slots) != 0 {
		t.Errorf("a closed listener accepted, or has %d connections: %v", len(l.slots), err)
	}
}

// Clients that connect and send no request, or are idle after one, do not keep others out.
func TestIdleClientsMakeRoom(t *testing.T) {
	addr, _ := serving(t, &HTTP{})
	most, _ := HTTPLimits()
	for i := range most + 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%4 == 0 {
			if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost:"); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := time.Now()
	resp, err := http.Get("http://" + addr + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if took := time.Since(begun); took > headerTime/2 { // after headerTime there is room anyway
		t.Errorf("it took %v", took)
	}
}

// pipes is a listener whose connections have no buffer.
type pipes chan net.Conn

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// A TLS client that does not read does not delay the end, which would otherwise wait 5 s to say goodbye.
func TestHTTPOverTLSEndsAtOnce(t *testing.T) {
	model := httptest.NewTLSServer(nil)
	defer model.Close()
	l := make(pipes)
	h, err := electhttp.New(electhttp.Config{Name: "job", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	end := (&HTTP{Handler: h, Listener: l, Certificate: &model.TLS.Certificates[0]}).Serve(slog.New(slog.DiscardHandler))
	server, client := net.Pipe()
	defer client.Close()
	l <- server
	trusts := model.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c := tls.Client(client, &tls.Config{RootCAs: trusts, ServerName: "127.0.0.1"})
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	end()
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the end took %v", took)
	}
}
