package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/electd/elect/fence"
)

const (
	// ClaimPath is the path at which a [Handler] takes claims: POST, with the header [Header]. It answers 204 and the
	// same header. See [Client.Claim].
	ClaimPath = "/.well-known/fencing/claim"

	// StatusPath is the path at which a [Handler] returns the mark of a resource as JSON: GET, with the query
	// resource=NAME. See [Client.Highest].
	StatusPath = "/.well-known/fencing/status"
)

// Config configures a [Handler]. The zero value is valid.
type Config struct {
	// Open reports which requests need no token, such as reads; those that show one are checked all the same. A
	// WebSocket begins as a GET: see [IsUpgrade]. nil: none.
	Open func(*http.Request) bool

	// MayClaim reports which requests may raise a mark: [Secret.IsShown], [HasCertificate], [IsFromSocket] or [Anyone].
	// The others pass with the token of the mark only. It guards the mark, not the data: the handler behind decides
	// which clients may write at all. nil: none, so that marks are raised by [fence.Guard.Claim] in this process only.
	MayClaim func(*http.Request) bool

	// RetryAfter is when a client may ask again after a 503, in whole seconds, rounded up. 0 or less: one second.
	RetryAfter time.Duration

	// Linger is how long a request may go on after its client is gone or has given it up; a greater token waits for it.
	// Then the request's context ends. 0: at once, and 30 seconds for [NewProxy]. Negative: never for that reason.
	Linger time.Duration

	// Lost is how long a request of [NewProxy] still counts as in flight if its upstream was lost before it had
	// answered in full, or from when the client was gone if Linger ends it. It should be the time of the longest
	// request. It ends sooner if a greater token ends the requests in flight ([fence.GuardConfig].Drain); but parts of
	// a stream that were forwarded after that token had come have the full time. 0: that of Linger, and 30 seconds if
	// Linger is negative. Negative: not at all.
	Lost time.Duration

	// Observe is called for refusals before the guard, without a resource: missing and malformed headers, and claims of
	// clients that may not claim. For the others the guard calls [fence.GuardConfig].Observe. nil: none.
	Observe func(fence.Decision)

	// Logger gets those refusals, and errors of the upstream, at level Warn. nil: silence.
	Logger *slog.Logger
}

// Handler passes requests on to the handler behind it if its guard admits them. The context of an admitted request
// carries the token ([fence.FromContext]), and ends with a [fence.StaleError] as its cause when the request must end
// because a greater token came. From then on reading the request's body fails, and a second later writing the response.
//
// A request whose handler hijacks the connection is in flight until the handler has returned and has closed that
// connection; when its context ends, the connection is closed.
//
// A handler must leave nothing behind that still writes when it returns. One of http.TimeoutHandler does: it belongs in
// front of a Handler.
type Handler struct {
	guard *fence.Guard
	next  http.Handler
	cfg   Config
}

// NewHandler returns a handler that guards next. It answers [ClaimPath] and [StatusPath] itself.
func NewHandler(guard *fence.Guard, next http.Handler, cfg Config) *Handler {
	if cfg.RetryAfter <= 0 {
		cfg.RetryAfter = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{guard: guard, next: next, cfg: cfg}
}

// IsUpgrade reports whether a request asks for another protocol on its connection.
func IsUpgrade(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == StatusPath {
		h.status(w, r)
		return
	}
	claim := r.URL.Path == ClaimPath
	if claim && r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer{Error: "want POST"}.write(w, http.StatusMethodNotAllowed)
		return
	}
	may := h.cfg.MayClaim != nil && h.cfg.MayClaim(r)
	r = withoutSecret(r)
	shown, err := FromHeader(r.Header)
	if claim && err == nil && !may {
		err = errMayNotClaim
	}
	switch {
	case errors.Is(err, fence.ErrMissing) && !claim && h.cfg.Open != nil && h.cfg.Open(r):
		open := &writer{ResponseWriter: w, control: http.NewResponseController(w), http1: r.ProtoMajor == 1}
		h.next.ServeHTTP(open, r)
		open.finish()
	case err != nil:
		result := fence.ResultOf(err)
		if result == fence.Foreign { // the name is malformed; this is not about where it is guarded
			result = fence.Malformed
		}
		h.cfg.Logger.Warn("refused", "method", r.Method, "remote", r.RemoteAddr, "result", result, "error", err)
		if h.cfg.Observe != nil {
			h.cfg.Observe(fence.Decision{Result: result})
		}
		h.refuse(w, shown, result, err)
	case claim:
		if err := h.guard.Claim(r.Context(), shown.Resource, shown.Token); err != nil {
			h.refuse(w, shown, fence.ResultOf(err), err) // [Client.Claim] knows what failed means
			return
		}
		SetHeader(w.Header(), shown)
		w.Header().Set(ResultHeader, string(fence.Passed))
		w.WriteHeader(http.StatusNoContent)
	default:
		h.serve(w, r, shown, may)
	}
}

var errMayNotClaim = fmt.Errorf("%w: the claim has no credential that is good here, such as a secret in %s; the mark stays", fence.ErrUnclaimed, ClaimHeader)

// serve admits a request and runs the handler behind it.
func (h *Handler) serve(rw http.ResponseWriter, r *http.Request, shown fence.Shown, may bool) {
	// The server ends the request's context when the handler returns. A hijacked
	// connection goes on after that, and so does its pass.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	w := &writer{
		ResponseWriter: rw, control: http.NewResponseController(rw), http1: r.ProtoMajor == 1,
		cancel: cancel, linger: h.cfg.Lost, log: h.cfg.Logger,
	}
	detach := context.AfterFunc(r.Context(), func() {
		w.gone()
		h.gone(r, cancel)
	})
	begin := h.guard.BeginClaimed
	if may {
		begin = h.guard.Begin
	}
	pass, err := begin(ctx, shown.Resource, shown.Token)
	if err != nil {
		detach()
		cancel(err)
		h.refuse(rw, shown, fence.ResultOf(err), err)
		return
	}
	w.pass, w.detach = pass, detach
	uncut := context.AfterFunc(pass.Context(), func() {
		if errors.Is(context.Cause(pass.Context()), fence.ErrStale) {
			w.cut()
		}
	})
	defer func() {
		if err := w.handlerReturned(uncut); err != nil {
			panic(http.ErrAbortHandler) // no answer is better than one that may be wrong
		}
	}()
	h.next.ServeHTTP(w, r.WithContext(pass.Context()))
}

// gone ends the context of a request some time after its client is gone.
func (h *Handler) gone(r *http.Request, cancel context.CancelCauseFunc) {
	end := func() { cancel(context.Cause(r.Context())) }
	switch {
	case h.cfg.Linger == 0:
		end()
	case h.cfg.Linger > 0:
		time.AfterFunc(h.cfg.Linger, end) // has no effect on a request that has ended by then
	}
}

func (h *Handler) refuse(w http.ResponseWriter, shown fence.Shown, result fence.Result, err error) {
	a := answer{Result: result, Resource: shown.Resource, Shown: shown.Token, Error: err.Error()}
	switch result {
	case fence.Stale:
		if stale, ok := errors.AsType[*fence.StaleError](err); ok {
			a.Highest = stale.Highest
			SetHeader(w.Header(), fence.Shown{Resource: shown.Resource, Token: stale.Highest})
		}
	case fence.Failed:
		a.Error = errFailed.Error()
		fallthrough
	case fence.Busy:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(h.cfg.RetryAfter.Seconds()))))
	}
	a.write(w, statuses[result])
}

// status returns the mark of a resource.
func (h *Handler) status(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		answer{Error: "want GET"}.write(w, http.StatusMethodNotAllowed)
		return
	}
	resource := fence.Resource(r.URL.Query().Get("resource"))
	highest, err := h.guard.Highest(r.Context(), resource)
	if err != nil {
		if !errors.Is(err, fence.ErrResource) {
			h.cfg.Logger.Warn("the mark cannot be read", "resource", resource, "error", err)
		}
		h.refuse(w, fence.Shown{Resource: resource}, fence.ResultOf(fmt.Errorf("status: %w", err)), err)
		return
	}
	n := h.guard.InFlight(resource)
	answer{Resource: resource, Highest: highest, InFlight: &n}.write(w, http.StatusOK)
}
