package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// fake is a store of S3's protocol that can be wrong. It does not check signatures: a real server does, in test/fencing.
type fake struct {
	mu      sync.Mutex
	objects map[string]string
	ignores string        // a condition that it ignores
	torn    chan struct{} // not nil: two writes meet between the decision of If-Match and the write
	answers []int         // what it answers in place of the next requests
	codes   []string      // with them
	ahead   time.Duration // of its clock
	dates   []time.Time   // of requests
	reads   int           // of objects that are not the probe
	spoiled int           // If-Match with the ETag of the probe does not hold for so many writes
	met     int           // writes of the probe with If-Match that were carried out
	loses   int           // the answers of the next writes
	shows   string        // not "": the text that reads find, beside the ETag of the object
	once    bool          // until the probe is written without a condition
	salt    string        // ETags are no MD5 of the text, but of the text and this
	header  http.Header   // how what is written is encrypted, if not with a key of the store's: then its ETag is no MD5 of the text
	keyed   map[string]http.Header
}

func (f *fake) etag(path, text string) string {
	if text += f.salt; f.keyed[path] != nil {
		text += "a key"
	}
	sum := md5.Sum([]byte(text))
	return `"` + f.keyed[path].Get("Etag") + hex.EncodeToString(sum[:]) + `"`
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `<Error><Code>`+code+`</Code><Message>no</Message></Error>`)
	}
	w.Header().Set("Date", time.Now().Add(f.ahead).UTC().Format(http.TimeFormat))
	dated, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	f.dates = append(f.dates, dated)
	if d := time.Since(dated) + f.ahead; d > 15*time.Minute || d < -15*time.Minute {
		fail(http.StatusForbidden, "RequestTimeTooSkewed")
		return
	}
	if len(f.answers) > 0 {
		fail(f.answers[0], f.codes[0])
		f.answers, f.codes = f.answers[1:], f.codes[1:]
		return
	}
	text, there := f.objects[r.URL.Path]
	if r.Method == http.MethodGet {
		if !there {
			fail(http.StatusNotFound, "NoSuchKey")
			return
		}
		maps.Copy(w.Header(), f.keyed[r.URL.Path])
		w.Header().Set("ETag", f.etag(r.URL.Path, text))
		if strings.HasSuffix(r.URL.Path, "~probe") {
			_, _ = io.WriteString(w, text)
			return
		}
		f.reads++
		_, _ = io.WriteString(w, cmp.Or(f.shows, text))
		return
	}
	if is := r.Header.Get("If-Match"); is != "" && f.ignores != "If-Match" && (!there || is != f.etag(r.URL.Path, text)) ||
		r.Header.Get("If-None-Match") != "" && f.ignores != "If-None-Match" && there {
		fail(http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	body, _ := io.ReadAll(r.Body)
	if f.once && strings.HasSuffix(r.URL.Path, "~probe") && r.Header.Get("If-Match")+r.Header.Get("If-None-Match") == "" {
		f.shows = ""
	}
	if strings.HasSuffix(r.URL.Path, "~probe") && r.Header.Get("If-Match") != "" {
		if f.spoiled > 0 {
			f.spoiled--
			fail(http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		f.met++
	}
	if f.torn != nil && r.Header.Get("If-Match") != "" {
		f.mu.Unlock()
		select {
		case f.torn <- struct{}{}:
		case <-f.torn:
		}
		f.mu.Lock()
	}
	f.objects[r.URL.Path] = string(body)
	if delete(f.keyed, r.URL.Path); f.header != nil {
		f.keyed[r.URL.Path] = f.header
	}
	if f.loses > 0 {
		f.loses--
		panic(http.ErrAbortHandler) // the connection ends
	}
	maps.Copy(w.Header(), f.keyed[r.URL.Path])
	w.Header().Set("ETag", f.etag(r.URL.Path, string(body)))
}

func (f *fake) set(do func()) { f.mu.Lock(); defer f.mu.Unlock(); do() }

// fails has the next requests fail.
func (f *fake) fails(n, status int, code string) {
	f.set(func() {
		for range n {
			f.answers, f.codes = append(f.answers, status), append(f.codes, code)
		}
	})
}

func serve(t testing.TB) (*fake, Config) {
	t.Helper()
	f := &fake{objects: map[string]string{}, keyed: map[string]http.Header{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, Config{Bucket: "bucket", Prefix: "/jobs/", Endpoint: s.URL, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "hunter2"}, nil
	})}
}

// TestMixed: where ETags are sums, a record that is read with the ETag of another one is not replaced.
func TestMixed(t *testing.T) {
	for name, salt := range map[string]string{"sums": "", "no sums": "kms"} {
		t.Run(name, func(t *testing.T) {
			f, cfg := serve(t)
			f.salt = salt
			o, err := newObject("e", cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			for next, probed := range map[string]bool{"2": false, "two": true} {
				f.set(func() { f.objects["/bucket/jobs/e"], f.shows = next, "1" })
				k, err := o.Read(ctx)
				if err != nil || k.Text != "1" {
					t.Fatalf("%+v, %v", k, err)
				}
				if !probed {
					f.set(func() { f.objects["/bucket/jobs/~probe"], f.shows = "{}", "" }) // by others
				}
				if _, err := o.Write(ctx, k.Version, "3"); (salt == "") != (errors.Is(err, register.ErrNotSent) && errors.Is(err, register.ErrConflict)) {
					t.Errorf("%v; want a record that was not read to stay, where ETags are sums", err)
				}
				if !probed { // f.shows is "" then
					f.set(func() { f.shows = "1" })
				}
				if salt == "" {
					if _, err = o.Read(ctx); !errors.Is(err, errMixed) || errors.Is(err, register.ErrConflict) {
						t.Errorf("%v; want a read that says what is wrong while the store shows it", err)
					}
				}
				f.set(func() { f.objects["/bucket/jobs/e"], f.shows = next, "" })
				if k, err = o.Read(ctx); err != nil || k.Text != next {
					t.Fatalf("%+v, %v", k, err)
				}
				before := len(f.dates)
				if _, err := o.Write(ctx, k.Version, "4"); err != nil || len(f.dates) != before+1 {
					t.Errorf("%v, in %d requests; want one", err, len(f.dates)-before)
				}
			}
		})
	}
}

// TestMixedOnce: a candidate that was shown a record with the ETag of another one reads again, and leads. If it is
// shown that for long it tries about once in a lease, and a line says why.
func TestMixedOnce(t *testing.T) {
	for name, once := range map[string]bool{"once": true, "for long": false} {
		t.Run(name, func(t *testing.T) {
			f, cfg := serve(t)
			cfg.Lease, cfg.MaxLease = time.Second, time.Second
			lead := func(within time.Duration, told int) (driver.Mandate, error) {
				log := &bytes.Buffer{}
				cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
				e, err := New(t.Context(), "e", "a", cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					_ = e.Close()
					if n := strings.Count(log.String(), "with a record and the ETag of another one"); n != told {
						t.Errorf("the log tells of such a record %d times; want %d\n%s", n, told, log)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
				if err != nil {
					return nil, err
				}
				return m, m.Release(t.Context())
			}
			was, err := lead(time.Minute, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.set(func() {
				is := f.objects["/bucket/jobs/e"] // it is free
				f.shows, f.objects["/bucket/jobs/e"] = is, is+" "
				f.once, f.reads = once, 0
			})
			if !once {
				if m, err := lead(4*time.Second, 1); err == nil {
					t.Fatalf("token %v; want nobody to lead", m.Token())
				}
				if f.reads < 10 || f.reads > 150 { // a pause is 62 ms, at least half of it; a second is for the end
					t.Errorf("%d reads in four leases; want one after each pause", f.reads)
				}
				f.set(func() { f.shows = "" })
			}
			told := 0
			if once {
				told = 1
			}
			if m, err := lead(time.Minute, told); err != nil || m.Token() <= was.Token() {
				t.Errorf("%v after %v, %v; want it to lead", m, was.Token(), err)
			}
		})
	}
}

// TestEncryptionChanges: a record that was encrypted with a key of KMS or of a client, whose ETag is no sum, is replaced
// by those who know only objects whose ETags are sums; and so is one whose ETag has another form.
func TestEncryptionChanges(t *testing.T) {
	for _, header := range []http.Header{
		{"X-Amz-Server-Side-Encryption": {"aws:kms"}}, {"X-Amz-Server-Side-Encryption": {"aws:kms:dsse"}}, {"X-Amz-Server-Side-Encryption-Customer-Algorithm": {"AES256"}},
		{"Etag": {"0f343b0931126a20f133d67c2b018a3b-1"}}, {"Etag": {"of another kind, and 32 long ...."}}, // a prefix of the ETag
	} {
		f, cfg := serve(t)
		f.header = header
		first, err := newObject("e", cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Write(t.Context(), "", "1"); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.header = nil; delete(f.objects, "/bucket/jobs/~probe") })
		o, err := newObject("e", cfg)
		if err != nil {
			t.Fatal(err)
		}
		k, err := o.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"2", "3"} {
			if k, err = o.Write(t.Context(), k.Version, text); err != nil {
				t.Errorf("%v: %v; want the record to be replaced", header, err)
			}
		}
	}
}

func TestConditions(t *testing.T) {
	f, cfg := serve(t)
	o, err := newObject("é.1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if k, err := o.Read(ctx); err != nil || k.Version != "" {
		t.Fatalf("%+v, %v; want no object", k, err)
	}
	first, err := o.Write(ctx, "", "1")
	if err != nil {
		t.Fatal(err)
	}
	if f.objects["/bucket/jobs/~C3~A9.1"] != "1" {
		t.Errorf("objects %q", f.objects)
	}
	if _, err := o.Write(ctx, "", "2"); !errors.Is(err, register.ErrConflict) {
		t.Errorf("%v; want a conflict where there is an object", err)
	}
	second, err := o.Write(ctx, first.Version, "2")
	if err != nil || second.Version == first.Version {
		t.Fatalf("%+v, %v", second, err)
	}
	if _, err := o.Write(ctx, first.Version, "3"); !errors.Is(err, register.ErrConflict) {
		t.Errorf("%v; want a conflict with another version", err)
	}
	if k, err := o.Read(ctx); err != nil || k != second {
		t.Errorf("%+v, %v; want %+v", k, err, second)
	}
	f.set(func() { delete(f.objects, "/bucket/jobs/~C3~A9.1") })
	if _, err := o.Write(ctx, second.Version, "3"); !errors.Is(err, register.ErrConflict) {
		t.Errorf("%v; want a conflict where the object was deleted", err)
	}
}

// TestIgnored: a store that ignores a condition is refused, and the election's object is not touched.
func TestIgnored(t *testing.T) {
	for _, ignores := range []string{"If-Match", "If-None-Match"} {
		f, cfg := serve(t)
		f.ignores = ignores
		e, err := New(t.Context(), "e", "a", cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if !driver.IsPermanent(err) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "ignores the conditions of writes") {
			t.Errorf("%s: %v; want that the store is refused", ignores, err)
		}
		_ = e.Close()
		if _, there := f.objects["/bucket/jobs/e"]; there {
			t.Errorf("%s: the election was written to", ignores)
		}
	}
}

// TestTorn: a store that decides a condition and then writes is refused, and the election's object is not touched.
func TestTorn(t *testing.T) {
	f, cfg := serve(t)
	f.torn = make(chan struct{})
	e, err := New(t.Context(), "e", "a", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if !driver.IsPermanent(err) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "want a store that decides and writes in one step") {
		t.Errorf("%v; want that the store is refused", err)
	}
	if _, there := f.objects["/bucket/jobs/e"]; there {
		t.Error("the election was written to")
	}
}

// TestNoMeeting: writes of a probe that all found another ETag, as when others probe, show nothing: they meet again. If
// that goes on, nothing is written, and the store is not refused for good.
func TestNoMeeting(t *testing.T) {
	for n, decided := range map[int]bool{meet: true, meet * meetings: false} {
		f, cfg := serve(t)
		f.set(func() { f.spoiled = n })
		o, err := newObject("e", cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Write(t.Context(), "", "1")
		if decided && (err != nil || f.met != 1) {
			t.Errorf("%v, with %d writes that met and succeeded; want the next meeting to decide", err, f.met)
		}
		if !decided && (!errors.Is(err, register.ErrNotSent) || driver.IsPermanent(err) || !strings.Contains(err.Error(), "it is not known whether it decides and writes in one step")) {
			t.Errorf("%v; want that nothing is written, for now", err)
		}
		if _, there := f.objects["/bucket/jobs/e"]; there != decided {
			t.Errorf("written: %t; want %t", there, decided)
		}
		if _, err := o.Write(t.Context(), "", "2"); decided != errors.Is(err, register.ErrConflict) || !decided && err != nil {
			t.Errorf("%v; want it to be asked again", err)
		}
	}
}

// TestProbedTogether: candidates that probe a sound store at the same time do not refuse it.
func TestProbedTogether(t *testing.T) {
	_, cfg := serve(t)
	errs := make(chan error)
	for range 8 {
		o, err := newObject("e", cfg)
		if err != nil {
			t.Fatal(err)
		}
		go func() { errs <- o.Admit(t.Context()) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestWrong: what the store refuses is told with what would be right, and never with a secret.
func TestWrong(t *testing.T) {
	for code, c := range map[string]struct {
		status  int
		lasting bool
		want    string
	}{
		"NoSuchBucket":          {404, true, "want a bucket that exists"},
		"NotFound":              {404, false, "the store answers 404 NotFound (no)"},
		"AccessDenied":          {403, true, "want a user with s3:GetObject"},
		"InvalidAccessKeyId":    {403, true, "want the key of a user that exists"},
		"SignatureDoesNotMatch": {403, true, "want the secret of that key"},
		"ExpiredToken":          {400, false, "want a session token that has not expired"},
		"SlowDown":              {503, false, "the store answers 503 SlowDown (no)"},
		"NotImplemented":        {501, true, "want a store with If-Match"},
		"PermanentRedirect":     {301, true, "want the endpoint and the region"},
	} {
		f, cfg := serve(t)
		f.fails(1, c.status, code)
		log := &bytes.Buffer{}
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		e, err := New(t.Context(), "e", "a", cfg)
		said := log.String()
		if err != nil {
			said = err.Error()
		} else {
			_ = e.Close()
		}
		if driver.IsPermanent(err) != c.lasting || errors.Is(err, ErrRefused) != c.lasting || !strings.Contains(said, c.want) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: %v, %s; want %q, for good: %t", code, err, said, c.want, c.lasting)
		}
	}
}

// TestTogether: a write that meets another one is a conflict, whichever of its two answers the store gives.
func TestTogether(t *testing.T) {
	f, cfg := serve(t)
	o, err := newObject("e", cfg)
	if err != nil {
		t.Fatal(err)
	}
	first, err := o.Write(t.Context(), "", "1")
	if err != nil {
		t.Fatal(err)
	}
	for status, code := range map[int]string{http.StatusPreconditionFailed: "PreconditionFailed", http.StatusConflict: "ConditionalRequestConflict"} {
		f.fails(1, status, code)
		if _, err := o.Write(t.Context(), first.Version, "2"); !errors.Is(err, register.ErrConflict) {
			t.Errorf("%d: %v; want a conflict", status, err)
		}
	}
}

// TestAnswers: a leader goes on leading over a renewal that was written and whose answer was lost, one that the store was
// too busy for, one that met another writer's, and one that is dated wrong because the wall clock was set. It reads what
// has come of it.
func TestAnswers(t *testing.T) {
	f, cfg := serve(t)
	cfg.Lease, cfg.MaxLease = time.Second, time.Second
	e, err := New(t.Context(), "e", "a", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	text := func() (is string) { f.set(func() { is = f.objects["/bucket/jobs/e"] }); return is }
	for what, do := range map[string]func(){
		"lost":     func() { f.set(func() { f.loses++ }) },
		"SlowDown": func() { f.fails(1, http.StatusServiceUnavailable, "SlowDown") },
		"conflict": func() { f.fails(1, http.StatusConflict, "ConditionalRequestConflict") },
		"skewed":   func() { f.set(func() { f.ahead += time.Hour }) },
	} {
		for range 3 {
			was := text()
			do()
			if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil || m.Check() != nil {
				t.Fatalf("%s: %v, %v; want it to lead on", what, err, m.Check())
			}
			if text() == was {
				t.Errorf("%s: nothing was written; want a renewal", what)
			}
		}
	}
	if err := m.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSlowDown: a store that is too busy for a while is asked again, and its answers are no proof.
func TestSlowDown(t *testing.T) {
	f, cfg := serve(t)
	cfg.Lease, cfg.MaxLease = time.Second, time.Second
	e, err := New(t.Context(), "e", "a", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	f.fails(2, http.StatusServiceUnavailable, "SlowDown")
	if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil && m.Check() == nil {
		t.Errorf("%v; want it to lead on, or to have lost its lease", err)
	}
	f.fails(1000, http.StatusServiceUnavailable, "SlowDown")
	<-m.Context().Done()
	if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
		t.Errorf("%v; want an expired lease", err)
	}
	f.set(func() { f.answers, f.codes = nil, nil })
	if err := m.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSkew: when the wall clock is wrong, requests have the store's time.
func TestSkew(t *testing.T) {
	f, cfg := serve(t)
	f.ahead = 3 * time.Hour
	o, err := newObject("e", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := f.dates[1].Sub(f.dates[0]); d < f.ahead-2*time.Second || d > f.ahead+2*time.Second {
		t.Errorf("the second request is dated %v after the first; want %v", d, f.ahead)
	}
	if _, err := o.Write(t.Context(), "", "1"); err != nil {
		t.Error(err)
	}
}
