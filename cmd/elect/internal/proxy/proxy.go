// Package proxy implements elect fence proxy: it serves a guarded proxy and, if configured, its metrics and health.
//
// [Serve] owns everything that it starts, and returns when all of it has ended. At the end, requests in flight have a
// time of grace. A request that is not done by then loses its connections, and its handler may still run, because the
// process ends. An error of a request or a mark becomes an answer and a line of the log; Serve returns an error only
// if it cannot serve.
package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// Config configures Serve.
type Config struct {
	Upstream  *url.URL
	Transport http.RoundTripper // nil: that of fencehttp.NewProxy
	Mark      fence.Mark
	Resources []fence.Resource
	Drain     time.Duration // as in fence.GuardConfig
	Patience  time.Duration // likewise
	Lost      time.Duration // as in fencehttp.Config
	Open      []string      // methods that need no token
	Era       uint64        // as in fence.GuardConfig
	MaxStep   uint64        // likewise

	MayClaim func(*http.Request) bool // as in fencehttp.Config
	Socket   net.Listener             // a further listener, for plain HTTP; Serve closes it; nil: none

	Certificate *tls.Certificate // nil: plain HTTP/1.1 and HTTP/2
	ClientCAs   *x509.CertPool   // authorities of client certificates, which are optional; nil: none is requested
	Grace       time.Duration    // for requests in flight at the end; 0 cuts them at once
	Logger      *slog.Logger

	// Serving is called when the mark has been read and requests are accepted, and Ending at the end, with the number in
	// flight. Either may be nil.
	Serving func()
	Ending  func(inFlight int)
}

const (
	headerTimeout = 10 * time.Second      // for the headers of a request
	idleTimeout   = 2 * time.Minute       // of a connection
	markTimeout   = 5 * time.Second       // for the mark to answer
	look          = 20 * time.Millisecond // between two checks of the requests in flight
)

// Serve serves on l, and metrics on metrics unless that is nil, until ctx ends. It returns how many requests were cut
// then. It closes all listeners.
func Serve(ctx context.Context, l, metrics net.Listener, cfg Config) (cut int, err error) {
	counted := newMetrics(cfg.Resources)
	guard, err := fence.NewGuard(cfg.Mark, cfg.Resources, fence.GuardConfig{
		Drain: cfg.Drain, Patience: cfg.Patience, Era: cfg.Era, MaxStep: cfg.MaxStep, Observe: counted.observe, Logger: cfg.Logger,
	})
	if err == nil {
		err = counted.begin(ctx, guard)
	}
	var proxy http.Handler
	if err == nil {
		proxy, err = fencehttp.NewProxy(guard, cfg.Upstream, cfg.Transport, fencehttp.Config{Open: open(cfg.Open), MayClaim: cfg.MayClaim, Linger: linger(cfg.Drain), Lost: cfg.Lost, Observe: counted.observe, Logger: cfg.Logger})
	}
	if err != nil {
		_ = l.Close()
		if metrics != nil {
			_ = metrics.Close()
		}
		if cfg.Socket != nil {
			_ = cfg.Socket.Close()
		}
		return 0, err
	}
	if metrics != nil {
		proxy = counted.instrument(proxy)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	errorLog := slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelInfo)
	front := &http.Server{Handler: proxy, Protocols: protocols, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ErrorLog: errorLog}
	beside := &http.Server{Handler: counted.handler(ctx, guard), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ErrorLog: errorLog}
	if cfg.Certificate != nil {
		front.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cfg.Certificate}}
		if _, unix := metrics.(*net.UnixListener); metrics != nil && !unix {
			beside.TLSConfig = front.TLSConfig.Clone()
		}
		if cfg.ClientCAs != nil {
			front.TLSConfig.ClientCAs, front.TLSConfig.ClientAuth = cfg.ClientCAs, tls.VerifyClientCertIfGiven
		}
	}
	ended := make(chan error, 3)
	serving := 1
	go func() {
		if cfg.Certificate == nil {
			ended <- front.Serve(l)
			return
		}
		ended <- front.ServeTLS(l, "", "")
	}()
	if cfg.Socket != nil {
		serving++
		go func() { ended <- front.Serve(cfg.Socket) }()
	}
	if metrics != nil {
		serving++
		go func() {
			if beside.TLSConfig == nil {
				ended <- beside.Serve(metrics)
				return
			}
			ended <- beside.ServeTLS(metrics, "", "")
		}()
	}
	if cfg.Serving != nil {
		cfg.Serving()
	}
	select {
	case <-ctx.Done():
	case err = <-ended:
		serving--
	}
	cut = finish(front, guard, cfg)
	_ = beside.Close()
	for range serving {
		if e := <-ended; err == nil && !errors.Is(e, http.ErrServerClosed) {
			err = e
		}
	}
	return cut, err
}

// finish lets requests in flight end, including upgraded connections, and cuts those that have not ended when the
// grace is over. It returns how many it has cut.
func finish(front *http.Server, guard *fence.Guard, cfg Config) (cut int) {
	late, cancel := context.WithTimeout(context.Background(), cfg.Grace)
	defer cancel()
	left := func() (n int) {
		for _, r := range cfg.Resources {
			n += guard.InFlight(r)
		}
		return n
	}
	if cfg.Ending != nil {
		cfg.Ending(left())
	}
	_ = front.Shutdown(late) // it is closed below
	again := time.NewTicker(look)
	defer again.Stop()
	for cut = left(); cut > 0 && late.Err() == nil; cut = left() {
		select {
		case <-again.C:
		case <-late.Done():
		}
	}
	_ = front.Close()
	return cut
}

// open reports which requests need no token.
func open(methods []string) func(*http.Request) bool {
	all := map[string]bool{}
	for _, m := range methods {
		all[m] = true
	}
	return func(r *http.Request) bool { return all[r.Method] && !fencehttp.IsUpgrade(r) }
}

// health returns an error if the mark of a resource cannot be read in time.
func health(ctx context.Context, guard *fence.Guard, resources []fence.Resource) error {
	ctx, cancel := context.WithTimeoutCause(ctx, markTimeout, fmt.Errorf("the mark does not answer within %v", markTimeout))
	defer cancel()
	for _, r := range resources {
		if _, err := guard.Highest(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// linger is how long a request may go on after its client is gone: as long as one for which a greater token waits.
func linger(drain time.Duration) time.Duration {
	if drain == 0 {
		return time.Nanosecond // cut at once, as all are then
	}
	return drain
}
