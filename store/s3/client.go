package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/electd/elect/store/internal/register"
	"github.com/electd/elect/store/internal/secure"
)

// client makes requests for the objects of a bucket. It repeats none: the machine does, when it knows what came of the
// first one.
type client struct {
	http        *http.Client
	owned       bool    // http is the client's own
	base        url.URL // of the bucket
	region      string
	credentials aws.CredentialsProvider
	signer      *v4.Signer
	skew        *atomic.Int64 // what the store's time is ahead of the wall clock, in nanoseconds; it only dates requests
}

func newClient(cfg Config) (*client, error) {
	c := &client{http: cfg.Client, region: cfg.Region, credentials: cfg.Credentials, signer: v4.NewSigner(), skew: &atomic.Int64{}}
	if c.region == "" {
		c.region = defaultRegion
	}
	if cfg.Credentials == nil {
		return nil, errors.New("no credentials; want Config.Credentials")
	}
	if !validBucket(cfg.Bucket) {
		return nil, fmt.Errorf("bucket %.100q; want 3 to 63 small letters, digits, dots and dashes", cfg.Bucket)
	}
	if strings.Trim(c.region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return nil, fmt.Errorf("region %.40q; want one such as eu-central-1", c.region)
	}
	virtual := cfg.VirtualHost
	if cfg.Endpoint == "" {
		c.base = url.URL{Scheme: "https", Host: "s3." + c.region + ".amazonaws.com"}
		virtual = !strings.Contains(cfg.Bucket, ".") // the certificate has no further dots
	} else {
		u, err := url.Parse(cfg.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, errors.New("the endpoint does not parse; want https://HOST:PORT")
		}
		c.base = url.URL{Scheme: u.Scheme, Host: u.Host}
	}
	if virtual {
		c.base.Host = cfg.Bucket + "." + c.base.Host
		c.base.Path = "/"
	} else {
		c.base.Path = "/" + cfg.Bucket + "/"
	}
	if c.http == nil {
		t := secure.Transport()
		t.DialContext = (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 10 * time.Second}).DialContext
		t.TLSHandshakeTimeout = 3 * time.Second
		t.DisableCompression = true // it would change ETags
		c.http = &http.Client{Transport: t}
	} else {
		own := *c.http
		c.http = &own
	}
	c.owned = cfg.Client == nil
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the signature is for one host
	return c, nil
}

const defaultRegion = "us-east-1"

func validBucket(s string) bool {
	return len(s) >= 3 && len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == "" && !strings.Contains(s, "..") &&
		s[0] != '.' && s[0] != '-'
}

// answer is what a store has answered.
type answer struct {
	status int
	etag   string
	keyed  bool // it is encrypted with a key of KMS or of a client, so the ETag is no sum
	body   []byte
	code   string // of an error, such as NoSuchKey
	text   string
	region string // of the bucket, if it is another one
	server string // what the store calls itself; "": it does not tell
}

// most is the longest body that is read. Errors have less.
const most = register.MaxRecord + 1

// do makes one request. An error means that its outcome is not known, or with register.ErrNotSent that it was not made.
func (c *client) do(ctx context.Context, method, key, query string, body []byte, header map[string]string) (*answer, error) {
	at := c.base
	at.Path += key
	at.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	own, err := c.credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: credentials: %w", register.ErrNotSent, err)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	now := time.Now()
	if err := c.signer.SignHTTP(ctx, own, r, hash, "s3", c.region, now.Add(time.Duration(c.skew.Load())), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true
	}); err != nil {
		return nil, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
			err = e.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	keyed := strings.HasPrefix(resp.Header.Get("X-Amz-Server-Side-Encryption"), "aws:kms") || resp.Header.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") != ""
	a := &answer{status: resp.StatusCode, etag: resp.Header.Get("ETag"), keyed: keyed, region: resp.Header.Get("X-Amz-Bucket-Region"), server: resp.Header.Get("Server")}
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, most)); err != nil {
		return nil, err
	}
	if a.status >= 300 {
		a.explain()
		if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil && a.code == "RequestTimeTooSkewed" {
			c.skew.Store(int64(date.Sub(now)))
		}
	}
	return a, nil
}

// explain reads the body of an error.
func (a *answer) explain() {
	var e struct {
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
		Region  string `xml:"Region"`
	}
	if xml.Unmarshal(a.body, &e) == nil {
		a.code, a.text = e.Code, e.Message
		if e.Region != "" {
			a.region = e.Region
		}
	}
}

// err is what is wrong with an answer that is not what was asked for.
func (a *answer) err() error {
	return &Error{Status: a.status, Code: a.code, text: a.text, region: a.region}
}

// Error is an error that a store has returned.
type Error struct {
	Status int    // of HTTP
	Code   string // of S3, such as SlowDown; "" if there is none

	text, region string
}

// Error returns the error in one line, with what would be right if that is known.
func (e *Error) Error() string {
	s := fmt.Sprintf("the store answers %d", e.Status)
	if e.Code != "" {
		s += " " + clean(e.Code, 60)
	}
	if e.text != "" {
		s += " (" + clean(e.text, 200) + ")"
	}
	if want := e.want(); want != "" {
		s += "; want " + want
	}
	return s
}

// clean is a text of the store's, on one line.
func clean(s string, longest int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	return s[:min(len(s), longest)]
}

// want says what would be right, "" if that is not known.
func (e *Error) want() string {
	switch {
	case e.Code == "NoSuchBucket":
		return "a bucket that exists"
	case e.Code == "InvalidAccessKeyId":
		return "the key of a user that exists"
	case e.Code == "SignatureDoesNotMatch":
		return "the secret of that key"
	case e.Code == "ExpiredToken" || e.Code == "InvalidToken":
		return "a session token that has not expired"
	case e.Code == "AuthorizationHeaderMalformed" || e.Status == http.StatusMovedPermanently || e.Status == http.StatusTemporaryRedirect || e.Code == "PermanentRedirect":
		if e.region != "" {
			return "region=" + clean(e.region, 40)
		}
		return "the endpoint and the region of the bucket"
	case e.Code == "RequestTimeTooSkewed":
		return "the store's time, which the next request has"
	case e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized:
		return "a user with s3:GetObject and s3:PutObject on the objects, and s3:ListBucket on the bucket, without which a missing object looks forbidden"
	case e.Status == http.StatusNotImplemented:
		return "a store with If-Match and If-None-Match on PUT"
	}
	return ""
}

// lasting reports whether only other arguments, or an administrator, mend it.
func (e *Error) lasting() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusNotImplemented:
		return e.Code != "RequestTimeTooSkewed" && e.Code != "ExpiredToken"
	}
	return e.Code == "NoSuchBucket" || e.Code == "InvalidAccessKeyId" || e.Code == "AuthorizationHeaderMalformed" || e.Code == "InvalidBucketName"
}
