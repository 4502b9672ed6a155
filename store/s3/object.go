package s3

import (
	"context"
	"crypto/fips140"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// object is one election.
type object struct {
	*client
	key    string
	probe  string // an object that shows whether conditions count
	proven atomic.Bool
	plain  atomic.Bool  // the ETag of what was written last is no sum
	mixed  atomic.Value // of string: the version that paired has refused last
}

var (
	_ register.Register = (*object)(nil)
	_ register.Admitter = (*object)(nil)
)

func newObject(name string, cfg Config) (*object, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(cfg.Prefix, "/")
	if strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") != "" || strings.Contains("/"+prefix+"/", "/./") || strings.Contains("/"+prefix+"/", "/../") || strings.Contains(prefix, "//") || len(prefix) > 400 {
		return nil, fmt.Errorf("prefix %s; want at most 400 letters, digits and _-./", drive.Shown(cfg.Prefix))
	}
	if prefix != "" {
		prefix += "/"
	}
	return &object{client: c, key: prefix + keyOf(name), probe: prefix + "~probe"}, nil
}

// keyOf is the name of an election as the end of a key: bytes that a URL would escape, and ~, are ~XX.
func keyOf(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c == '_' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	return b.String()
}

// begin reads the object at the start.
func (o *object) begin(ctx context.Context) error {
	_, err := o.Read(ctx)
	if skewed(err) {
		_, err = o.Read(ctx) // with the store's time
	}
	return lasting(err)
}

// lasting marks an error of the store that only other arguments, or an administrator, mend.
func lasting(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.lasting() {
		return driver.Permanent(err)
	}
	return err
}

func skewed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == "RequestTimeTooSkewed"
}

// Read implements [register.Register].
func (o *object) Read(ctx context.Context) (register.Kept, error) {
	a, err := o.do(ctx, http.MethodGet, o.key, "", nil, nil)
	switch {
	case err != nil:
		return register.Kept{}, err
	case a.status == http.StatusNotFound && a.code == "NoSuchKey": // others answer 404, too
		return register.Kept{}, nil
	case a.status != http.StatusOK:
		return register.Kept{}, a.err()
	case a.etag == "":
		return register.Kept{}, errNoETag
	}
	k := register.Kept{Text: string(a.body), Version: version(a, string(a.body))}
	if k.Version == o.mixed.Load() { // a candidate waits until it is another one
		if err := o.paired(ctx, k.Version); err != nil {
			return register.Kept{}, err
		}
	}
	return k, nil
}

// odd ends a version whose ETag could be the sum of a text, and is not that of its own. Most stores give sums, and others
// none. One that gives sums has answered with a record and the ETag of a later one: versitygw with a sidecar writes the
// ETag first.
const odd = "?"

// sum is the ETag of a text in most stores.
func sum(text string) (etag string) {
	fips140.WithoutEnforcement(func() { etag = fmt.Sprintf(`"%x"`, md5.Sum([]byte(text))) })
	return etag
}

// version is that of a text with the answer that told its ETag.
func version(a *answer, text string) string {
	bytes, err := hex.DecodeString(strings.Trim(a.etag, `"`))
	if err != nil || len(bytes) != md5.Size || a.keyed || a.etag == sum(text) {
		return a.etag
	}
	return a.etag + odd
}

var errMixed = errors.New("the store has answered with a record and the ETag of another one; want one that shows both from one write")

// paired returns an error if a store whose ETags are sums has shown a version that is odd: a write on its condition would
// replace a record that was not read.
func (o *object) paired(ctx context.Context, version string) error {
	if !strings.HasSuffix(version, odd) || o.plain.Load() {
		return nil
	}
	text := probeText()
	a, err := o.do(ctx, http.MethodPut, o.probe, "", []byte(text), nil)
	switch {
	case err != nil:
		return err
	case a.status != http.StatusOK:
		return a.err()
	case a.etag == sum(text):
		o.mixed.Store(version)
		return errMixed
	}
	o.plain.Store(true)
	return nil
}

// probeText has an ETag that never comes again.
func probeText() string { return `{"probe":"` + rand.Text() + `"}` }

var errNoETag = errors.New("the store answers without an ETag; want a store of S3's protocol")

// Write implements [register.Register]. Each text differs from all others, so each has another ETag.
func (o *object) Write(ctx context.Context, old, text string) (register.Kept, error) {
	err := o.conditional(ctx)
	if err == nil {
		if err = o.paired(ctx, old); errors.Is(err, errMixed) {
			err = fmt.Errorf("%w: %w", register.ErrConflict, err) // the machine has to read again
		}
	}
	if err != nil {
		return register.Kept{}, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	a, err := o.put(ctx, o.key, strings.TrimSuffix(old, odd), text)
	if err != nil {
		return register.Kept{}, err
	}
	return register.Kept{Text: text, Version: version(a, text)}, nil
}

// put writes an object on the condition that it has that ETag, or, if that is "", that there is none.
func (o *object) put(ctx context.Context, key, etag, text string) (*answer, error) {
	condition := map[string]string{"If-Match": etag}
	if etag == "" {
		condition = map[string]string{"If-None-Match": "*"}
	}
	a, err := o.do(ctx, http.MethodPut, key, "", []byte(text), condition)
	switch {
	case err != nil:
		return nil, err
	case a.status == http.StatusPreconditionFailed, a.status == http.StatusConflict, // at the same time as another
		a.status == http.StatusNotFound && etag != "" && a.code == "NoSuchKey":
		return nil, register.ErrConflict
	case a.status != http.StatusOK:
		return nil, a.err()
	case a.etag == "":
		return nil, errNoETag
	}
	o.plain.Store(a.etag != sum(text))
	return a, nil
}

// Admit implements [register.Admitter].
func (o *object) Admit(ctx context.Context) error { return lasting(o.conditional(ctx)) }

// conditional writes with conditions that are false, until the store was seen to refuse them once. The object for that
// stays: without it, another candidate at the same time would find a condition true.
func (o *object) conditional(ctx context.Context) error {
	if o.proven.Load() {
		return nil
	}
	refused := false
	for range 2 { // the first one may create it
		_, err := o.put(ctx, o.probe, "", "{}")
		if refused = errors.Is(err, register.ErrConflict); refused {
			break
		}
		if err != nil {
			return err
		}
	}
	if refused {
		_, err := o.put(ctx, o.probe, `"00000000000000000000000000000000"`, "{}")
		if refused = errors.Is(err, register.ErrConflict); !refused && err != nil {
			return err
		}
	}
	if !refused {
		return driver.Permanent(errors.New("the store ignores the conditions of writes, so two could lead; want a store with If-Match and If-None-Match on PUT"))
	}
	if err := o.meeting(ctx); err != nil {
		return err
	}
	o.proven.Store(true)
	return nil
}

// meet is how many writes meet in a probe, and meetings is how many there are at most.
const meet, meetings = 16, 8

// meeting has writes with one condition meet. One of them has to succeed. A store that decides the condition and writes
// in two steps carries out several of them nearly always. If none succeeds the condition was false before they met, as
// others probe, too: that shows nothing, and they meet again.
func (o *object) meeting(ctx context.Context) error {
	for range meetings {
		if succeeded, err := o.met(ctx); err != nil || succeeded {
			return err
		}
	}
	return fmt.Errorf("the store has carried out none of %d times %d writes with the ETag that it showed, so it is not known whether it decides and writes in one step; want fewer that probe it at the same time, or a store that carries out one of them", meetings, meet)
}

// met is one meeting. It reports whether a write has succeeded.
func (o *object) met(ctx context.Context) (bool, error) {
	a, err := o.do(ctx, http.MethodGet, o.probe, "", nil, nil)
	switch {
	case err != nil:
		return false, err
	case a.status != http.StatusOK:
		return false, a.err()
	case a.etag == "":
		return false, errNoETag
	}
	done := make(chan error, meet)
	for range meet {
		text := probeText()
		go func() {
			_, err := o.put(ctx, o.probe, a.etag, text)
			done <- err
		}()
	}
	succeeded, refused := 0, 0
	var trouble error
	for range meet {
		switch err := <-done; {
		case err == nil:
			succeeded++
		case errors.Is(err, register.ErrConflict):
			refused++
		default:
			trouble = err
		}
	}
	switch {
	case succeeded > 1:
		return false, driver.Permanent(fmt.Errorf("the store has carried out %d of %d writes with the same If-Match that met, so two could lead; want a store that decides and writes in one step", succeeded, meet))
	case succeeded+refused < meet/2: // too few have met
		return false, trouble
	}
	return succeeded == 1, nil
}
