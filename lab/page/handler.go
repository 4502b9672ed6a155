package page

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// policy lets the page run only its own files, and reach only this server.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// hashed matches the names that contain a hash of the file: browsers may keep these files for ever.
var hashed = regexp.MustCompile(`-[0-9A-Z]{8}\.(js|css)$`)

// types has the content types by the ending of a name. Those of the system may be wrong.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".wasm": "application/wasm",
	".gz":   "application/gzip",
}

// file is one file of the page.
type file struct {
	data   []byte
	packed []byte // data, by gzip; nil if data is compressed already
	tag    string // the ETag of data, without quotes
	kind   string
}

// finish sets the fields that follow from the name and the data.
func (f *file) finish(name string) (err error) {
	f.tag = fmt.Sprintf("%x", sha256.Sum256(f.data))[:16]
	f.kind = types[path.Ext(name)]
	if f.kind == "" {
		return fmt.Errorf("there is no content type for its ending")
	}
	if f.packed == nil && name != compressed {
		f.packed, err = pack(f.data)
	}
	return err
}

// Handler serves the page at /. The Host of a request must be an IP address, localhost or one of hosts; any other gets
// status 421. So no page of another site can read this one by a name that it has resolve to this server (DNS
// rebinding). Any number of goroutines may use the Handler.
func (s *Site) Handler(hosts ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		if !named(r.Host, hosts) {
			http.Error(w, fmt.Sprintf("the Host %.100q is not of this server; want an IP address or %s", r.Host,
				strings.Join(slices.Concat([]string{"localhost"}, hosts), " or ")), http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "method "+r.Method+"; want GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		f, ok := s.files[name]
		if !ok {
			http.Error(w, "there is no such file; want /", http.StatusNotFound)
			return
		}
		f.serve(w, r, name)
	})
}

func (f *file) serve(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	if hashed.MatchString(name) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	data, tag := f.data, f.tag
	if f.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(r) {
			h.Set("Content-Encoding", "gzip")
			data, tag = f.packed, tag+"-gzip"
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// takesGzip reports whether the client names gzip in Accept-Encoding, as all browsers do.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if strings.EqualFold(coding, "gzip") {
			return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// named reports whether a Host names this server.
func named(host string, hosts []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	same := func(name string) bool { return strings.EqualFold(name, host) }
	return same("localhost") || slices.ContainsFunc(hosts, same)
}
