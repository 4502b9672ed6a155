package electhttp

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group"
)

// keysTime is how long a request waits for the coordinator of a group.
const keysTime = 2 * time.Second

// Coordinator is what [NewKeys] asks: a [*group.Client], or a [*group.Group] in one of the members.
type Coordinator interface {
	Status(ctx context.Context) (group.Status, error)
	Lookup(ctx context.Context, key string) (elect.Leader, error)
}

// NewKeys returns a handler that says who holds which key of the group with that name: GET /v1/groups/NAME, of the
// group, and /v1/groups/NAME/keys/KEY, of a key. hosts is as [Config].Hosts. An answer has an ETag, and may be kept by
// caches that ask each time whether it is still the same. With a [*group.Client] most questions about keys end in this
// process. A coordinator that does not answer within 2 s is an answer of status 503.
func NewKeys(name string, of Coordinator, hosts []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/groups/{group}", produces(jsonType, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), keysTime)
		defer cancel()
		s, err := of.Status(ctx)
		if err != nil {
			unknownKeys(w, err)
			return
		}
		unchanged(w, r, fmt.Sprintf("%v-%d", s.Token, s.Version), s)
	}))
	mux.HandleFunc("GET /v1/groups/{group}/keys/{key}", produces(jsonType, func(w http.ResponseWriter, r *http.Request) {
		key := r.PathValue("key")
		if err := driver.CheckName(key); err != nil {
			problem(w, http.StatusNotFound, "", fmt.Sprintf("no key can have that name: %v", err))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), keysTime)
		defer cancel()
		l, err := of.Lookup(ctx, key)
		switch {
		case errors.Is(err, elect.ErrNoLeader):
			problem(w, http.StatusNotFound, noLeader, "nobody holds the key "+key)
		case err != nil:
			unknownKeys(w, err)
		default:
			unchanged(w, r, fmt.Sprint(l.Token), struct {
				Group  string       `json:"group"`
				Key    string       `json:"key"`
				Holder elect.Leader `json:"holder"`
			}{name, key, l})
		}
	}))
	mux.HandleFunc("GET /openapi.json", produces(jsonType, func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, jsonType, keysAPI) }))
	mux.HandleFunc("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !hasName(hosts, r.Host) {
			misdirected(w, r, hosts)
			return
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/groups/"); ok {
			if asked, _, _ := strings.Cut(rest, "/"); asked != name {
				problem(w, http.StatusNotFound, "", "there is no such group here; want "+name)
				return
			}
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, "", "want GET or HEAD")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// unknownKeys answers that the coordinator did not.
func unknownKeys(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	problem(w, http.StatusServiceUnavailable, unreachable, err.Error())
}

// unchanged answers with a document, unless the client has it. Its version is not enough for an ETag: what a holder shows
// beside itself changes under one token.
func unchanged(w http.ResponseWriter, r *http.Request, version string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		problem(w, http.StatusInternalServerError, "", err.Error())
		return
	}
	h := fnv.New64a()
	_, _ = h.Write(body) // it never fails
	tag := fmt.Sprintf(`"%s-%x"`, version, h.Sum64())
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", tag)
	for _, list := range r.Header.Values("If-None-Match") {
		if has := slices.Collect(strings.SplitSeq(strings.ReplaceAll(list, " ", ""), ",")); slices.Contains(has, tag) || slices.Contains(has, "W/"+tag) || slices.Contains(has, "*") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	respond(w, http.StatusOK, jsonType, append(body, '\n'))
}

//go:embed keys.json
var keysAPI []byte

// withKeys is the description of a server of elections that serves groups, too. What both describe is of the elections:
// it has more.
func withKeys() []byte {
	type object = map[string]any
	var all, keys object
	if err := errors.Join(json.Unmarshal(openAPI, &all), json.Unmarshal(keysAPI, &keys)); err != nil {
		panic(err) // a test parses both
	}
	add := func(to, from any, name string) {
		into := to.(object)[name].(object)
		for part, v := range from.(object)[name].(object) {
			if _, there := into[part]; !there {
				into[part] = v
			}
		}
	}
	add(all, keys, "paths")
	for _, kind := range []string{"responses", "schemas"} {
		add(all["components"], keys["components"], kind)
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it was JSON
	}
	return text
}
