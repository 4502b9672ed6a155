package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/runner"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/internal/cli/exit"
)

// httpFlags are those of elect run about its HTTP server.
type httpFlags struct {
	set                    *pflag.FlagSet
	addr, token, cert, key string
	sidecar                bool
}

// httpFlagNames are the names of those flags.
var httpFlagNames = [...]string{"http", "http-token-file", "http-cert", "http-key", "http-sidecar"}

func (f *httpFlags) flags(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.addr, "http", "", "`ADDRESS` to serve HTTP on: HOST:PORT of loopback, such as 127.0.0.1:4040, or unix:PATH")
	set.StringVar(&f.token, "http-token-file", "", "`FILE` with the token of clients of --http that may resign and transfer")
	set.StringVar(&f.cert, "http-cert", "", "`FILE` with the certificate of --http, in PEM; with it, it may serve beyond loopback")
	set.StringVar(&f.key, "http-key", "", "`FILE` with the key of --http-cert")
	set.BoolVar(&f.sidecar, "http-sidecar", false, "answer GET / of --http with the leader, as the leader-elector sidecar of Kubernetes did")
}

// The bounds of a token of --http-token-file, in bytes.
const (
	minToken = 16
	maxToken = 4 << 10
)

// listen begins to listen, and returns the server that the flags describe, or nil without --http.
// Metrics of the election, and more of them, are at /metrics.
func (f *httpFlags) listen(cfg electhttp.Config, more ...prometheus.Collector) (*runner.HTTP, error) {
	if err := notBlank(f.set, "http", "http-token-file", "http-cert", "http-key"); err != nil {
		return nil, err
	}
	if f.addr == "" {
		if f.token != "" || f.cert != "" || f.key != "" || f.sidecar {
			return nil, exit.Usagef("--http-token-file, --http-cert, --http-key and --http-sidecar have no effect without --http; want --http, too")
		}
		return nil, nil
	}
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Usagef("--http-cert and --http-key belong together; want both, or none")
	}
	local := strings.HasPrefix(f.addr, "unix:")
	if local && f.cert != "" {
		return nil, exit.Usagef("%s is %q, which has no certificate; want it without %s and %s", f.from("http"), f.addr, f.from("http-cert"), f.from("http-key"))
	}
	registry := prometheus.NewRegistry()
	s := &runner.HTTP{Metrics: electprom.New(cfg.Name), Groups: &runner.Groups{Registry: registry}}
	registry.MustRegister(s.Metrics)
	registry.MustRegister(more...)
	cfg.Metrics = metricsHandler(registry)
	if f.cert != "" {
		pair, err := keyPair(f.from("http-cert"), f.cert, f.from("http-key"), f.key)
		if err != nil {
			return nil, err
		}
		s.Certificate = &pair
	}
	var err error
	if cfg.Token, err = readToken(f.from("http-token-file"), f.token); err != nil {
		return nil, err
	}
	cfg.Trusted, cfg.Sidecar = local, f.sidecar
	_, cfg.Watchers = runner.HTTPLimits()
	if !local && f.cert == "" {
		host, _, _ := net.SplitHostPort(f.addr) // listenTCP refuses what is wrong
		cfg.Hosts = []string{host}
	}
	if s.Handler, err = electhttp.New(cfg); err != nil {
		return nil, exit.Usagef("%s: %w", f.from("http"), err)
	}
	if s.Listener, s.Shown, err = listenHTTP(f.from("http"), f.addr, s.Certificate != nil, "--http-cert and --http-key"); err != nil {
		return nil, err
	}
	return s, nil
}

// from names what has set a flag: it, or the variable that stands for it.
func (f *httpFlags) from(name string) string {
	if f.set.Changed(name) {
		return "--" + name
	}
	return variable(name)
}

// listenHTTP listens on the address of a flag, unix:PATH or HOST:PORT, and returns its URL for people. An address
// beyond loopback must be secure; certificate names the flags for that.
func listenHTTP(flag, addr string, secure bool, certificate string) (l net.Listener, shown string, err error) {
	path, local := strings.CutPrefix(addr, "unix:")
	switch {
	case local && path == "":
		return nil, "", exit.Usagef("%s %q names no socket; want unix:PATH", flag, addr)
	case local && tooLong(path):
		return nil, "", exit.Usagef("%s %q has a path that is too long for a socket; want at most %d bytes, and %d for its directory", flag, addr, maxSocket, maxSocket-len(temporary))
	case local:
		l, err = listenPrivately(path)
		shown = addr
	default:
		l, shown, err = listenTCP(flag, addr, secure, certificate)
	}
	if _, told := errors.AsType[*exit.Error](err); err != nil && !told {
		err = failed.Backend(fmt.Errorf("%s: %w", flag, err))
	}
	return l, shown, err
}

// metricsHandler serves the metrics of a registry. It does not compress: on a near network that saves no time.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: maxScrapes})
}

// maxScrapes is how many scrapes are answered at a time; others get 503.
const maxScrapes = 4

// addressTCP refuses addresses beyond loopback without TLS.
func addressTCP(flag, addr string, secure bool, certificate string) (*net.TCPAddr, error) {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, exit.Usagef("%s %q: %w; want HOST:PORT, such as 127.0.0.1:4040, or unix:PATH", flag, addr, err)
	}
	if !secure && !to.IP.IsLoopback() {
		return nil, exit.Usagef("%s %s is not on loopback, and there is no certificate; want 127.0.0.1:PORT, or %s", flag, addr, certificate)
	}
	return to, nil
}

func listenTCP(flag, addr string, secure bool, certificate string) (net.Listener, string, error) {
	to, err := addressTCP(flag, addr, secure, certificate)
	if err != nil {
		return nil, "", err
	}
	l, err := net.ListenTCP("tcp", to)
	if err != nil {
		return nil, "", err
	}
	if secure {
		return l, "https://" + l.Addr().String(), nil
	}
	return l, "http://" + l.Addr().String(), nil
}

// readToken reads the file of --http-token-file. Its errors do not repeat what is in it.
func readToken(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, mode, err := readFile(flag, path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && mode&0o007 != 0 {
		return "", exit.With(exit.CannotCreate, fmt.Errorf("%s %s has mode %04o, with which all users can read it or write to it; want 0600 or 0640", flag, path, mode.Perm()))
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken || len(token) > maxToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", exit.Usagef("%s %s has no token; want one line of %d to %d visible ASCII characters", flag, path, minToken, maxToken)
	}
	return token, nil
}
