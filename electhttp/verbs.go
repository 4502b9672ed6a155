package electhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

const (
	maxBody   = 4 << 10
	orderTime = 10 * time.Second
)

// guard knows which clients may change something.
type guard struct {
	token   string
	trusted bool
	origin  http.CrossOriginProtection
}

// permitted refuses clients that may not change anything.
func (g *guard) permitted(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := g.origin.Check(r); err != nil {
			problem(w, http.StatusForbidden, "", "the page of another site sent this request (its Origin is not this server)")
			return
		}
		switch {
		case g.trusted:
		case g.token == "":
			problem(w, http.StatusForbidden, "", "this server has no token, so it changes nothing over this connection; want one, or its Unix socket")
			return
		case !g.authorized(r.Header.Values("Authorization")):
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "", "want Authorization: Bearer and the token of this server")
			return
		}
		serve(w, r)
	}
}

func (g *guard) authorized(values []string) bool {
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.token)) // of one length
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func (h *Handler) serveResign(w http.ResponseWriter, r *http.Request) {
	var token string
	var now bool
	if readOrder(w, r, field{"token", &token}, field{"now", &now}) {
		h.order(w, r, token, now, (*elect.Election).Resign)
	}
}

func (h *Handler) serveTransfer(w http.ResponseWriter, r *http.Request) {
	var to, token string
	var now bool
	if !readOrder(w, r, field{"to", &to}, field{"token", &token}, field{"now", &now}) {
		return
	}
	if to != "" {
		if err := driver.CheckID(to); err != nil {
			problem(w, http.StatusBadRequest, badOrder, "to: "+err.Error())
			return
		}
	}
	h.order(w, r, token, now, func(e *elect.Election, ctx context.Context, token elect.Token) error {
		return e.Transfer(ctx, token, to)
	})
}

// servePause has this participant, and no other, stand aside or stand again.
func (h *Handler) servePause(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !readOrder(w, r) {
			return
		}
		if h.cfg.Pause == nil {
			problem(w, http.StatusNotImplemented, unsupported, "this server cannot pause its participant")
			return
		}
		if err := h.cfg.Pause(on); err != nil {
			problem(w, http.StatusBadGateway, unreachable, err.Error())
			return
		}
		writeJSON(w, struct {
			Election string `json:"election"`
			Name     string `json:"name"`
			ID       string `json:"id"`
			Paused   bool   `json:"paused"`
		}{h.cfg.Election, h.cfg.Name, h.cfg.ID, on})
	}
}

// field is a field of the body of a verb.
type field struct {
	name  string
	value any // a pointer to a string or a truth value
}

// readOrder reads the body of a verb. If it is wrong readOrder answers, and returns false.
func readOrder(w http.ResponseWriter, r *http.Request, fields ...field) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		problem(w, http.StatusRequestEntityTooLarge, "", fmt.Sprintf("the body has more than %d bytes; want fewer", maxBody))
		return false
	}
	if err != nil {
		problem(w, http.StatusBadRequest, badOrder, "the body could not be read")
		return false
	}
	if len(body) == 0 {
		return true
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != jsonType {
		problem(w, http.StatusUnsupportedMediaType, "", "the body is not said to be JSON; want Content-Type: "+jsonType)
		return false
	}
	if err := parseOrder(body, fields); err != nil {
		problem(w, http.StatusBadRequest, badOrder, err.Error())
		return false
	}
	return true
}

// parseOrder reads one JSON object, with each of the fields at most once. Its error names the field that is wrong.
func parseOrder(body []byte, fields []field) error {
	if body = bytes.TrimSpace(body); !bytes.HasPrefix(body, []byte("{")) {
		return errors.New("the body is no JSON object; want one, or no body")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	_, err := d.Token() // the brace
	seen := map[json.Token]bool{}
	for err == nil && d.More() {
		var name json.Token
		if name, err = d.Token(); err != nil {
			break
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case i < 0:
			return fmt.Errorf("unknown field %q; want %s", name, cmp.Or(names(fields), "no field"))
		case seen[name]:
			return fmt.Errorf("field %q is there twice; want it once", name)
		}
		seen[name] = true
		err = d.Decode(fields[i].value)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("field %q is a JSON %s; want a %s", name, wrong.Value, map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "truth value"}[wrong.Type.Kind()])
		}
	}
	if err == nil {
		_, err = d.Token() // the other brace
	}
	if err != nil {
		return fmt.Errorf("the body is wrong: %s; want one JSON object", strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() || len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return errors.New("the body goes on after its JSON object; want one object")
	}
	return nil
}

func names(fields []field) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return strings.Join(all, " or ")
}

// TenureKey is the key of a leader's metadata that has its tenure, such as 10m0s: for how long it is not asked to resign
// or to transfer. [elect] itself does not know it: it is for those who ask.
const TenureKey = "tenure"

// TooEarly returns an error if a leader has not led for its tenure: that of its metadata, or the given one if that is
// longer. It compares the wall clocks of the leader and of this process. A leader whose Since is not known has led for
// long enough.
func TooEarly(l elect.Leader, tenure time.Duration) error {
	if own, err := time.ParseDuration(l.Metadata[TenureKey]); err == nil {
		tenure = max(tenure, own)
	}
	led := time.Since(l.Since)
	if l.Since.IsZero() || led >= tenure {
		return nil
	}
	return fmt.Errorf("%s has led for %v, and its tenure is %v", l.ID, led.Truncate(time.Second), tenure)
}

// order asks the present leader to do something. If token is not empty it asks the leader with that token alone, and
// without now none before its tenure.
func (h *Handler) order(w http.ResponseWriter, r *http.Request, token string, now bool, ask func(*elect.Election, context.Context, elect.Token) error) {
	var only elect.Token
	if token != "" {
		if err := only.UnmarshalText([]byte(token)); err != nil || only == 0 {
			problem(w, http.StatusBadRequest, badOrder, fmt.Sprintf("token %q is not a token; want the leader's, such as 42", token))
			return
		}
	}
	h.need(r.Context())
	h.mu.Lock()
	e, s := h.election, h.state
	h.mu.Unlock()
	switch {
	case e == nil || h.life.Err() != nil || s.Stale:
		problem(w, http.StatusServiceUnavailable, unreachable, cmp.Or(s.Cause, driver.ErrUnreachable).Error())
		return
	case s.Leader == nil:
		problem(w, http.StatusConflict, noLeader, "nobody leads "+h.cfg.Name)
		return
	case only != 0 && only != s.Leader.Token:
		problem(w, http.StatusConflict, superseded, fmt.Sprintf("token %v leads, and not %v; no leader was asked", s.Leader.Token, only))
		return
	}
	if err := TooEarly(*s.Leader, h.cfg.Tenure); err != nil && !now {
		problem(w, http.StatusConflict, tooEarly, err.Error()+"; want now, or a later request")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTime)
	defer cancel()
	if err := ask(e, ctx, s.Leader.Token); err != nil {
		status, k := refusal(err)
		problem(w, status, k, err.Error())
		return
	}
	writeJSON(w, struct {
		Election string      `json:"election"`
		Name     string      `json:"name"`
		ID       string      `json:"id"`
		Token    elect.Token `json:"token"`
	}{h.cfg.Election, h.cfg.Name, s.Leader.ID, s.Leader.Token})
}

// refusal is the status of an error of the back end.
func refusal(err error) (int, kind) {
	switch {
	case errors.Is(err, elect.ErrNoLeader):
		return http.StatusConflict, noLeader
	case errors.Is(err, elect.ErrSuperseded):
		return http.StatusConflict, superseded
	case errors.Is(err, elect.ErrIneligible):
		return http.StatusConflict, ineligible
	case errors.Is(err, elect.ErrUnsupported):
		return http.StatusNotImplemented, unsupported
	case errors.Is(err, elect.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, unknown
	}
	return http.StatusBadGateway, unreachable
}
