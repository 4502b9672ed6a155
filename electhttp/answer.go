package electhttp

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const jsonType = "application/json"

// kind is the last part of the type of a problem that HTTP has no status for; empty means that the status says it all.
type kind string

const (
	notLeading  kind = "not-leading"
	leading     kind = "leading"
	stalled     kind = "stalled"
	notReady    kind = "not-ready"
	badOrder    kind = "bad-order"
	noLeader    kind = "no-leader"
	superseded  kind = "superseded"
	ineligible  kind = "ineligible"
	tooEarly    kind = "too-early"
	unsupported kind = "unsupported"
	unreachable kind = "unreachable"
	unknown     kind = "unknown-outcome"
)

// kinds are the prefix of types of problems. They are names, and not addresses.
const kinds = "tag:github.com,2026:electd/elect:"

// problem answers with an error in the form of RFC 9457.
func problem(w http.ResponseWriter, status int, k kind, detail string) {
	p := struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail}
	if k != "" {
		p.Type, p.Title = kinds+string(k), strings.ReplaceAll(string(k), "-", " ")
	}
	body, _ := json.Marshal(p) // strings and a number
	respond(w, status, "application/problem+json", append(body, '\n'))
}

func text(w http.ResponseWriter, body string) {
	respond(w, http.StatusOK, "text/plain; charset=utf-8", []byte(body))
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		problem(w, http.StatusInternalServerError, "", err.Error())
		return
	}
	respond(w, http.StatusOK, jsonType, append(body, '\n'))
}

func respond(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone
}

// produces refuses clients that do not accept the type of the answer.
func produces(contentType string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r.Header.Values("Accept"), contentType) {
			problem(w, http.StatusNotAcceptable, "", fmt.Sprintf("the answer is %s; want an Accept that allows it", contentType))
			return
		}
		serve(w, r)
	}
}

// accepts reports whether the values of Accept allow a type. The most specific range decides. A range that does not
// parse allows nothing.
func accepts(values []string, contentType string) bool {
	if len(values) == 0 {
		return true
	}
	wide, _, _ := strings.Cut(contentType, "/")
	best, allowed := 0, false
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		specific := 0
		switch media {
		case contentType:
			specific = 3
		case wide + "/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if specific > best {
			best, allowed = specific, q > 0
		}
	}
	return allowed
}

// named refuses names of other elections.
func (h *Handler) named(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") != h.cfg.Name {
			problem(w, http.StatusNotFound, "", "there is no such election here; want "+h.cfg.Name)
			return
		}
		serve(w, r)
	}
}
