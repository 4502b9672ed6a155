package postgres

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/peer/certs"
)

// controlled is what the control channel asks of a node.
type controlled interface {
	state(ctx context.Context, confirm bool) Status
	promise(ctx context.Context, token uint64) (answer, error)
	handOver(ctx context.Context, to string) error
	pause(on bool) error
}

// control serves the other nodes and operators.
type control struct {
	of     controlled
	name   string // Settings.cluster
	secret string
	ids    []string        // of the nodes
	certs  *certs.Identity // nil with a secret
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operator, err := c.admit(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if name := r.Header.Get("Elect-Cluster"); name != c.name {
		http.Error(w, fmt.Sprintf("this is the cluster %s, and the request is for %.300q; want the same name, confirm and nodes in the configuration of each node", c.name, name), http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	switch of := r.Method + " " + r.URL.Path; of {
	case "GET /v1/status":
		reply(w, http.StatusOK, c.of.state(r.Context(), r.URL.Query().Has("confirm")))
	case "POST /v1/prepare":
		var p preparing
		if operator {
			http.Error(w, "an operator has no term; want the certificate of a node", http.StatusForbidden)
			return
		}
		if !read(w, r, &p) {
			return
		}
		a, err := c.of.promise(r.Context(), p.Token)
		if no, ok := errors.AsType[*refusal](err); ok {
			reply(w, http.StatusConflict, no)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		} else {
			reply(w, http.StatusOK, a)
		}
	case "POST /v1/switchover":
		var p struct {
			To string `json:"to"`
		}
		if read(w, r, &p) {
			done(w, c.of.handOver(r.Context(), p.To))
		}
	case "POST /v1/pause":
		var p struct {
			On bool `json:"on"`
		}
		if read(w, r, &p) {
			done(w, c.of.pause(p.On))
		}
	default:
		http.Error(w, fmt.Sprintf("there is no %.80q; want GET /v1/status, POST /v1/prepare, /v1/switchover or /v1/pause", of), http.StatusNotFound)
	}
}

// admit returns whether the caller is an operator, or why it is refused. Nodes may do everything, and of operators those
// that may resign.
func (c *control) admit(r *http.Request) (operator bool, err error) {
	if c.certs == nil {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(c.secret))
		if !ok || subtle.ConstantTimeCompare(a[:], b[:]) == 0 {
			return false, errors.New("the secret is another one; want that of secret-file")
		}
		return false, nil
	}
	if r.TLS == nil {
		return false, errors.New("there is no certificate; want TLS")
	}
	id, err := c.certs.Caller(*r.TLS)
	if err != nil {
		return false, err
	}
	if slices.Contains(c.ids, id) {
		return false, nil
	}
	if role, _ := certs.RoleOf(id); role != "" && (r.Method == http.MethodGet || role.Includes(certs.Operate)) {
		return true, nil
	}
	return false, fmt.Errorf("%s is no node of this cluster; want one of %s, or an operator", id, strings.Join(c.ids, ", "))
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

func done(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	reply(w, http.StatusOK, struct{}{})
}

// Bounds of the servers.
const (
	headerTime  = 5 * time.Second
	requestTime = 30 * time.Second
	idleTime    = time.Minute
	maxHeader   = 16 << 10
)

// serve answers at a listener until the function that it returns is called, which cuts all connections.
func serve(l net.Listener, h http.Handler, tlsConfig *tls.Config, log *slog.Logger) (end func()) {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // of clients that come and go
	}
	if tlsConfig != nil {
		l = tls.NewListener(l, tlsConfig)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // ErrServerClosed
	}()
	return func() {
		_ = s.Close()
		<-ended
	}
}

// probes answers load balancers.
type probes struct {
	of      *Node
	metrics http.Handler
}

func (p *probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions { // HAProxy's default is OPTIONS
		http.Error(w, "this changes nothing; want GET", http.StatusMethodNotAllowed)
		return
	}
	var err error
	switch r.URL.Path {
	case "/primary":
		err = p.of.isPrimary()
	case "/replica":
		err = p.of.isReplica()
	case "/health":
		err = p.of.isHealthy()
	case "/metrics":
		p.metrics.ServeHTTP(w, r)
		return
	default:
		http.Error(w, "want /primary, /replica, /health or /metrics", http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "yes\n")
}
