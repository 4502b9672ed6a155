package main

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
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/cmd/elect/internal/proxy"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const fenceProxyHelp = `Guard an HTTP server that knows nothing of fencing: forward the requests of the leader,
and refuse those of earlier leaders. Each request shows the resource and the token of
its term:

  Fencing-Token: orders;42

The proxy saves the greatest token (--mark) before it forwards its first request. It
forwards nothing of a request that it refuses:
  412  the token is smaller; the answer has the greatest one
  428  there is no token
  400  the token is malformed, of a greater era than --era and the mark, or its count is
       more than --max-step above the mark
  421  the resource is another one
  403  the token is above the mark, and the client has no credential
A greater token waits until the requests of smaller ones have ended. After --drain the
proxy cuts them, upgraded connections, too. A new leader claims before it reads
anything, with elect fence claim, or with POST ` + fencehttp.ClaimPath + ` and the same
header.

Only a client with a credential can raise the mark, because a mark that is too great
keeps all leaders out. The credential is one of
  - a secret in the header ` + fencehttp.ClaimHeader + ` (--claim-secret). With --mark file:DIR
    the default is DIR/claim.secret, which elect fence install has made, unless another
    credential is given. The upstream does not see the secret. --cert protects it on the
    network.
  - a certificate of the client (--claim-ca, with --cert)
  - a Unix socket of this user (--claim-socket; elect fence claim --at unix:PATH)
--anyone-may-claim accepts claims from all clients that can connect.

To cut a request closes the connection to the upstream, which may still work on it. So
set --drain to more than the longest request takes. The proxy also waits that long
  - after a restart, before a greater token (--settle): requests forwarded earlier may
    still be at work
  - for a request whose client is gone
  - for a request whose upstream connection was lost
All writes must go through the proxy: make the upstream accept only its connections.

The proxy forwards HTTP/1.1 and HTTP/2, with and without --cert, streams, trailers and
WebSockets. SIGTERM ends it: requests in flight may end within --grace.

It writes messages for people to stderr. With --log-format json each line is an object
with time, level and msg, and most have event: warning, serving, guarding, ending, ended
or failed.`

// markHelp describes the values of --mark.
const markHelp = `of the mark: file:DIR, a directory on a local disk; postgres://… or mysql://…, a table that several proxies share (elect fence install; a password belongs in ELECT_MARK); or memory, which forgets it at every restart and then lets a stale leader in`

// sharedSlack is how much longer than --drain a mark that proxies share waits, and its least wait. Requests that come
// during the wait queue behind it. Those that come after it has ended have not been told to end, so that a mark with
// a shorter wait might wait for ever.
const sharedSlack = 10 * time.Second

// openMark opens the mark that --mark names, for these resources.
func openMark(at string, shared bool, drain time.Duration, resources []fence.Resource) (*marks.Kept, error) {
	if at == "" {
		return nil, exit.Usagef("no place of the mark is given; want --mark file:DIR; --mark memory forgets it at every restart")
	}
	mark, err := marks.Mark(at, marks.Config{Wait: max(0, drain) + sharedSlack, SharedPlace: shared}, resources...)
	if errors.Is(err, marks.ErrURL) {
		return nil, exit.Usagef("--mark: %w", err)
	}
	return mark, failed.Backend(err)
}

// drainTime is the value of --drain: a time, or never.
type drainTime struct{ value *time.Duration }

func (s drainTime) String() string {
	if s.value == nil {
		return ""
	}
	if *s.value < 0 {
		return "never"
	}
	return s.value.String()
}

func (s drainTime) Type() string { return "duration" }

func (s drainTime) Set(text string) error {
	if text == "never" {
		*s.value = -1
		return nil
	}
	if err := cli.Duration(s.value).Set(text); err != nil {
		return errors.New("want a time such as 500ms, 10s, 2m or 0, or never")
	}
	return nil
}

// fenceProxy is the values of its flags.
type fenceProxy struct {
	listen, upstream, mark, metrics string
	resources, open                 []string
	cert, key, upstreamCA           string
	claims                          claimFlags
	era, maxStep                    uint64
	drain, settle, patience, grace  time.Duration
	verbose, shared                 bool
	logFormat                       logFormat
}

func newFenceProxy() *cobra.Command {
	p := fenceProxy{drain: 30 * time.Second, settle: -1, patience: time.Minute, grace: 10 * time.Second, logFormat: "text"}
	cmd := &cobra.Command{
		Use:     "proxy [flags]",
		Short:   "guard an HTTP server that knows nothing of fencing",
		Long:    fenceProxyHelp,
		Example: "  elect fence install --at file:/var/lib/elect/fence orders\n  elect fence proxy --listen :8080 --upstream http://127.0.0.1:9000 --resource orders --mark file:/var/lib/elect/fence\n  curl -H \"Fencing-Token: orders;$ELECT_TOKEN\" -d x http://proxy:8080/orders",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd, "listen", "grace"); err != nil { // those variables are for elections
				return err
			}
			return p.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.listen, "listen", "", "`ADDR` to serve on, HOST:PORT")
	f.StringVar(&p.upstream, "upstream", "", "`URL` of the guarded server: http://, https:// or h2c:// (HTTP/2 without TLS)")
	f.StringSliceVar(&p.resources, "resource", nil, "`NAME` of a guarded resource; may be given several times")
	f.StringVar(&p.mark, "mark", "", "`PLACE` "+markHelp)
	f.BoolVar(&p.shared, sharedPlace, false, sharedPlaceUsage)
	f.Var(drainTime{&p.drain}, "drain", "`TIME` for which requests of smaller tokens may go on after a greater one came; 0 cuts them at once, never cuts none")
	f.Var(cli.Duration(&p.settle), "settle", "`TIME` after the start during which a greater token waits; 0: none (default: that of --drain)")
	f.Lookup("settle").DefValue = ""
	f.Var(cli.Duration(&p.patience), "patience", "longest `TIME` that a greater token waits for smaller ones before 503; 0: no limit")
	f.StringSliceVar(&p.open, "open", nil, "`METHOD`s that need no token, such as GET,HEAD (upgrades always do)")
	f.StringVar(&p.metrics, "metrics", "", "`ADDR` to serve /metrics and /healthz on: HOST:PORT of loopback, elsewhere with --cert, or unix:PATH")
	f.StringVar(&p.cert, "cert", "", "`FILE` with the certificate of the proxy and those above it (PEM)")
	f.StringVar(&p.key, "key", "", "`FILE` with the key of --cert (PEM)")
	f.StringVar(&p.upstreamCA, "upstream-ca", "", "`FILE` with the authorities to trust for an https:// upstream (default: the system's)")
	p.claims.flags(f)
	f.Uint64Var(&p.era, "era", 0, "greatest `ERA` of a token, that of the election's URL; a greater era that the mark already has stays valid")
	f.Uint64Var(&p.maxStep, "max-step", 1<<40, "greatest `N` by which the count of a token may exceed that of the mark")
	f.Var(cli.Duration(&p.grace), "grace", "`TIME` for requests in flight to end after SIGTERM, before they are cut; 0 cuts them at once")
	p.logFormat.flag(cmd)
	f.BoolVarP(&p.verbose, "verbose", "v", false, "log internal events, too")
	return cmd
}

// config reads the flags.
func (p *fenceProxy) config() (cfg proxy.Config, err error) {
	cfg = proxy.Config{Drain: p.drain, Patience: p.patience, Grace: p.grace, Era: p.era, MaxStep: p.maxStep}
	if p.listen == "" {
		return cfg, exit.Usagef("no address to serve on is given; want --listen HOST:PORT, such as --listen :8080")
	}
	if p.upstream == "" {
		return cfg, exit.Usagef("no upstream is given; want --upstream URL, such as --upstream http://127.0.0.1:9000")
	}
	if cfg.Upstream, err = fencehttp.ParseUpstream(p.upstream); err != nil {
		return cfg, exit.Usagef("--upstream: %w", err)
	}
	if len(p.resources) == 0 {
		return cfg, exit.Usagef("no resource is given; want --resource NAME, such as --resource orders")
	}
	for _, name := range p.resources {
		r, err := fence.ParseResource(name)
		if err != nil {
			return cfg, exit.Usagef("--resource: %w", err)
		}
		if fencehttp.IsSettled(r) {
			return cfg, exit.Usagef("--resource: names such as %s are those of the proxy's own marks; want another", r)
		}
		if !slices.Contains(cfg.Resources, r) {
			cfg.Resources = append(cfg.Resources, r)
		}
	}
	for _, method := range p.open {
		cfg.Open = append(cfg.Open, strings.ToUpper(method))
	}
	if p.era > fence.MaxEra {
		return cfg, exit.Usagef("--era %d; want 0 to %d", p.era, fence.MaxEra)
	}
	if p.maxStep == 0 || p.maxStep > fence.MaxCount {
		return cfg, exit.Usagef("--max-step %d; want 1 to %d", p.maxStep, uint64(fence.MaxCount))
	}
	if (p.cert == "") != (p.key == "") {
		return cfg, exit.Usagef("--cert and --key belong together; want both, or none")
	}
	if p.cert != "" {
		pair, err := keyPair("--cert", p.cert, "--key", p.key)
		if err != nil {
			return cfg, err
		}
		cfg.Certificate = &pair
	}
	if p.upstreamCA != "" {
		cfg.Transport, err = p.trusting(cfg.Upstream)
	}
	return cfg, err
}

// trusting returns a transport that trusts only the authorities of --upstream-ca.
func (p *fenceProxy) trusting(upstream *url.URL) (http.RoundTripper, error) {
	if upstream.Scheme != "https" {
		return nil, exit.Usagef("--upstream-ca is for an upstream of https://, and this is %s", upstream.Redacted())
	}
	pool, err := authorities("--upstream-ca", p.upstreamCA)
	if err != nil {
		return nil, err
	}
	t := fencehttp.NewTransport(upstream.Scheme)
	t.TLSClientConfig = &tls.Config{RootCAs: pool}
	return t, nil
}

// authorities reads the certificates in the file that a flag names.
func authorities(flag, path string) (*x509.CertPool, error) {
	text, _, err := readFile(flag, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, exit.Usagef("%s %s has no certificate; want PEM", flag, path)
	}
	return pool, nil
}

func (p *fenceProxy) run(cmd *cobra.Command) (err error) {
	said := lines.New(os.Stderr, lines.Form{JSON: p.logFormat == "json"})
	defer said.Close()
	tell := func(level slog.Level, event, format string, args ...any) {
		said.Event(level, fmt.Sprintf(format, args...), slog.String("event", event))
	}
	defer func() {
		if code, untold := exit.Of(err); untold && p.logFormat == "json" {
			tell(slog.LevelError, "failed", "%v", err)
			err = exit.Silent(code)
		}
	}()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	cfg, err := p.config()
	if err != nil {
		return err
	}
	mark, err := openMark(p.mark, p.shared, p.drain, cfg.Resources)
	if err != nil {
		return err
	}
	defer mark.Close()
	cfg.Logger = said.Logger(p.verbose)
	for _, w := range mark.Warnings {
		tell(slog.LevelWarn, "warning", "%s", w)
	}
	cfg.Mark = mark.Mark
	_, shared := cfg.Mark.(fence.Sharer)
	if shared && p.settle > 0 {
		return exit.Usagef("--settle has no effect with a mark that proxies share, because none knows when another was killed; leave it out")
	}
	if p.settle < 0 && p.drain < 0 && !shared {
		return exit.Usagef("with --drain never it is not known how long an upstream is at work after this proxy was killed; want --settle TIME, too")
	}
	if p.settle < 0 {
		p.settle = p.drain
	}
	if p.drain < 0 && p.settle > 0 {
		cfg.Lost = p.settle // the time of the longest request, as --drain otherwise is
	}
	if !shared && p.settle > 0 {
		cfg.Mark = fencehttp.Settle(cfg.Mark, p.settle)
	}
	credentials, err := p.claims.config(&cfg, p.mark)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.listen)
	if err != nil {
		return failed.Backend(fmt.Errorf("--listen: %w", err))
	}
	if p.claims.socket != "" {
		if cfg.Socket, err = listenPrivately(p.claims.socket); err != nil {
			_ = l.Close()
			return failed.Backend(fmt.Errorf("--claim-socket: %w", err))
		}
	}
	var metrics net.Listener
	if p.metrics != "" {
		at := ""
		if metrics, at, err = listenHTTP("--metrics", p.metrics, cfg.Certificate != nil, "--cert and --key"); err != nil {
			_ = l.Close()
			if cfg.Socket != nil {
				_ = cfg.Socket.Close()
			}
			return err
		}
		tell(slog.LevelInfo, "serving", "metrics at %s/metrics", at)
	}
	cfg.Serving = func() {
		tell(slog.LevelInfo, "guarding", "guarding %s on %v for %s", strings.Join(p.resources, ", "), l.Addr(), cfg.Upstream.Redacted())
		tell(slog.LevelInfo, "guarding", "%s", credentials)
	}
	cfg.Ending = func(inFlight int) {
		if inFlight > 0 {
			tell(slog.LevelInfo, "ending", "ending: %d requests are in flight, and have %v to end; a second signal ends it at once", inFlight, p.grace)
		}
	}
	cut, err := proxy.Serve(ctx, l, metrics, cfg)
	if err != nil {
		return failed.Backend(err)
	}
	if cut > 0 {
		tell(slog.LevelWarn, "ended", "ended; %d requests were cut, and their outcome is not known", cut)
	} else {
		tell(slog.LevelInfo, "ended", "ended")
	}
	return nil
}
