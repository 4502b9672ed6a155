package runner

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

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
	end = s.serve(slog.New(slog.DiscardHandler))
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

// A connection that is closed makes room for the next one.
func TestBoundedConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &bounded{Listener: inner, slots: make(chan struct{}, 1), closed: make(chan struct{})}
	for range 3 {
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil || len(l.slots) != 1 {
			t.Fatalf("%v, %d slots in use", err, len(l.slots))
		}
		_ = c.Close()
		_ = c.Close() // frees nothing
	}
	l.slots <- struct{}{}
	_ = l.Close()
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepted")
	}
}
