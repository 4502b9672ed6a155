package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// bucket is one election in a bucket.
type bucket struct {
	*link
	js       jetstream.JetStream
	name     string // of the bucket
	key      string // of the election, without the incarnation
	replicas int    // of a bucket that is made

	mu          sync.Mutex
	incarnation string        // of the bucket as it was seen last; "": it was not seen, or there was none
	turned      chan struct{} // closed, and replaced, at each change of incarnation
	checked     string        // the text that was written last, and was no renewal
}

var (
	_ register.Watcher  = (*bucket)(nil)
	_ register.Admitter = (*bucket)(nil)
)

// stream is the name of the stream that keeps a bucket.
func (b *bucket) stream() string { return "KV_" + b.name }

// subject is that of the key in an incarnation.
func (b *bucket) subject(incarnation string) string {
	return "$KV." + b.name + "." + b.key + "." + incarnation
}

func validBucket(s string) bool {
	return s != "" && len(s) <= 200 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// keyOf is the name of an election as a part of a key: a byte that a key cannot have, a dot and = are =XX.
func keyOf(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// version is that of a revision. Only that of one key of one incarnation of the bucket is compared with another, so an
// incarnation is a part of it.
func version(incarnation string, revision uint64) string {
	return incarnation + "/" + strconv.FormatUint(revision, 10)
}

func parseVersion(version string) (incarnation string, revision uint64) {
	incarnation, text, _ := strings.Cut(version, "/")
	revision, _ = strconv.ParseUint(text, 10, 64) // it was formatted
	return incarnation, revision
}

// revisionOf is the number of a version.
func revisionOf(version string) uint64 { _, n := parseVersion(version); return n }

// known returns the incarnation of the bucket that was seen last, and what is closed when another is seen.
func (b *bucket) known() (string, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.incarnation, b.turned
}

// note notes the incarnation of the bucket.
func (b *bucket) note(incarnation string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.incarnation != incarnation {
		b.incarnation = incarnation
		close(b.turned)
		b.turned = make(chan struct{})
	}
}

// ask asks which incarnation of the bucket there is now, "" if there is none, and whether it is safe.
func (b *bucket) ask(ctx context.Context) (incarnation string, err error) {
	info, err := b.info(ctx)
	if err == nil {
		err = outdated(b.ConnectedServerVersion())
	}
	if err != nil {
		return "", err
	}
	if info != nil {
		if err := unsafe(b.name, info); err != nil {
			return "", err
		}
		incarnation = incarnationOf(info)
	}
	b.note(incarnation)
	return incarnation, nil
}

// outdated returns why a server of that version cannot hold elections, nil if it can. Only that of the connection is known.
func outdated(version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 2 || major == 2 && minor < 10) {
		return driver.Permanent(fmt.Errorf("nats-server is %.20s: with replicas it carries out several writes with one condition that meet (its issue 4320); want 2.10 or later", version))
	}
	return nil
}

// incarnationOf is the incarnation of a bucket: the time at which it was made, which all its servers have.
func incarnationOf(info *jetstream.StreamInfo) string {
	return strconv.FormatInt(info.Created.UnixNano(), 36)
}

// info is what the servers know of the bucket, nil if there is none.
func (b *bucket) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	if err := b.connected(); err != nil {
		return nil, err
	}
	begun := time.Now()
	s, err := b.js.Stream(ctx, b.stream())
	b.heard(reading, begun, err)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, b.plain(err)
	}
	return s.CachedInfo(), nil
}

// Admit implements [register.Admitter]. It makes the bucket if there is none, and tries whether the user may write.
func (b *bucket) Admit(ctx context.Context) error {
	incarnation, err := b.ask(ctx)
	if err == nil && incarnation == "" {
		err = b.make(ctx)
		incarnation, _ = b.known()
	}
	if err == nil {
		// No revision is that great, so nothing is written.
		if _, err = b.put(ctx, incarnation, 1<<62, ""); errors.Is(err, register.ErrConflict) {
			return nil
		}
	}
	return b.lasting(err)
}

// make makes the bucket. Several candidates may do so at the same time.
func (b *bucket) make(ctx context.Context) error {
	replicas := b.replicas
	if replicas == 0 {
		if replicas = 1; b.ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	_, err := b.js.CreateStream(ctx, safe(b.name, replicas))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another one has made it, otherwise
		return b.plain(fmt.Errorf("the bucket %s cannot be made: %w", b.name, err))
	}
	_, err = b.ask(ctx)
	return err
}

// Read implements [register.Register]. The stream's leader answers. It need not know that it has been replaced, and then
// shows an older record, which is a delay only.
func (b *bucket) Read(ctx context.Context) (register.Kept, error) {
	incarnation, _ := b.known()
	for {
		if incarnation != "" {
			m, err := b.last(ctx, b.subject(incarnation))
			if err != nil {
				return register.Kept{}, err
			}
			if m != nil && !m.deleted {
				return register.Kept{Text: m.text, Version: version(incarnation, m.revision), Store: incarnation}, nil
			}
		}
		now, err := b.ask(ctx) // the bucket may be another one
		if err != nil || now == incarnation || now == "" {
			return register.Kept{Store: now}, err
		}
		incarnation = now
	}
}

// message is the last one of a key.
type message struct {
	text     string
	revision uint64
	deleted  bool // it says that the key was deleted
}

// last returns the last message of a subject, nil if there is none. It asks the stream's leader: other servers, which
// answer the direct requests of package jetstream, may be behind.
func (b *bucket) last(ctx context.Context, subject string) (*message, error) {
	if err := b.connected(); err != nil {
		return nil, err
	}
	request, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil { // of strings it never fails
		return nil, err
	}
	begun := time.Now()
	var m *message
	answer, err := b.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+b.stream(), request)
	if err == nil {
		m, err = parseLast(answer.Data)
	}
	b.heard(reading, begun, err)
	if err != nil {
		return nil, b.plain(err)
	}
	return m, nil
}

// parseLast reads the answer to a request for a message, nil if there is none.
func parseLast(data []byte) (*message, error) {
	var r struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("the answer of JetStream: %w", err)
	}
	switch {
	case r.Error != nil && (r.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound || r.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound):
		return nil, nil
	case r.Error != nil:
		return nil, r.Error
	case r.Message == nil || r.Message.Sequence == 0:
		return nil, errors.New("the answer of JetStream has no message")
	}
	m := &message{text: string(r.Message.Data), revision: r.Message.Sequence}
	if len(r.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(r.Message.Header)
		if err != nil {
			return nil, fmt.Errorf("the headers of the key: %w", err)
		}
		m.deleted = header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != ""
	}
	return m, nil
}

// Write implements [register.Register].
func (b *bucket) Write(ctx context.Context, old, text string) (register.Kept, error) {
	incarnation, revision := parseVersion(old)
	b.mu.Lock()
	checked := b.checked
	if old == "" {
		incarnation = b.incarnation
	}
	b.mu.Unlock()
	if incarnation == "" { // Read has seen no bucket
		if err := b.make(ctx); err != nil {
			return register.Kept{}, fmt.Errorf("%w: %w", register.ErrNotSent, err)
		}
		incarnation, _ = b.known()
	}
	revision, err := b.put(ctx, incarnation, revision, text)
	if errors.Is(err, register.ErrConflict) && old == "" {
		// The key may have been deleted, which leaves a message.
		m, unread := b.last(ctx, b.subject(incarnation))
		if unread != nil {
			return register.Kept{}, unread
		}
		if m != nil && m.deleted {
			revision, err = b.put(ctx, incarnation, m.revision, text)
		}
	}
	if err != nil {
		return register.Kept{}, err
	}
	if old == "" || register.News(checked, text) {
		// Nobody begins a tenure under the key of a bucket that is not there any more.
		if now, err := b.ask(ctx); err != nil {
			return register.Kept{}, err
		} else if now != incarnation {
			return register.Kept{}, fmt.Errorf("the bucket %s was deleted or made again", b.name)
		}
		b.mu.Lock()
		b.checked = text
		b.mu.Unlock()
	}
	return register.Kept{Text: text, Version: version(incarnation, revision), Store: incarnation}, nil
}

// put writes the key if its last message has that revision, 0 if there is none.
func (b *bucket) put(ctx context.Context, incarnation string, last uint64, text string) (uint64, error) {
	if err := b.connected(); err != nil {
		return 0, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	m := &nats.Msg{Subject: b.subject(incarnation), Data: []byte(text)}
	begun := time.Now()
	ack, err := b.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(b.stream()), jetstream.WithRetryAttempts(0))
	b.heard(writing, begun, err)
	if refused, is := errors.AsType[*jetstream.APIError](err); is &&
		(refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return 0, register.ErrConflict
	}
	if err != nil {
		return 0, b.plain(err)
	}
	return ack.Sequence, nil
}

// Watch implements [register.Watcher]: a consumer of the stream's messages of the key, which are in the stream when they
// arrive. A renewal is told, too: what is seen at once need not be waited for so long. Without the rights for a consumer,
// there is polling only.
func (b *bucket) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		incarnation, turned := b.known()
		if incarnation != "" {
			b.watch(ctx, incarnation, turned, changed)
		}
		select {
		case <-ctx.Done():
		case <-turned:
		case <-time.After(watchPause):
		}
	}
}

// watchPause is the time until a watch that has failed is tried again.
const watchPause = 5 * time.Second

// watch watches the key in one incarnation of the bucket, until that ends.
func (b *bucket) watch(ctx context.Context, incarnation string, turned <-chan struct{}, changed func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beginning, ready := context.WithTimeout(ctx, watchPause)
	kv, err := b.js.KeyValue(beginning, b.name)
	ready()
	if err != nil {
		return
	}
	w, err := kv.Watch(ctx, b.key+"."+incarnation, jetstream.UpdatesOnly())
	if err != nil {
		return
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case entry, open := <-w.Updates():
			if !open {
				return
			}
			if entry != nil {
				changed()
			}
		case <-turned:
			return
		case <-ctx.Done():
			return
		}
	}
}

// safe is the configuration of a bucket that is made: that of a bucket of any NATS client, in files.
func safe(name string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, Description: "elections of elect",
		Storage: jetstream.FileStorage, Replicas: replicas, MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1, MaxMsgSize: -1,
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, Duplicates: 2 * time.Minute,
	}
}

// unsafe returns why a bucket cannot hold elections, nil if it can.
func unsafe(name string, info *jetstream.StreamInfo) error {
	c := &info.Config
	for _, r := range []struct {
		is   bool
		what string
	}{
		{c.Mirror != nil, "it is a mirror; want the bucket that it mirrors"},
		{len(c.Sources) > 0, "it takes messages of other streams (sources); want none"},
		{c.Storage != jetstream.FileStorage, "it is in memory, and forgets what it has acknowledged; want file storage"},
		{c.PersistMode != jetstream.DefaultPersistMode, "persist_mode is async, so it forgets what it has acknowledged when a server dies; want the default"},
		{c.Retention != jetstream.LimitsPolicy, "its retention deletes messages that were read; want limits"},
		{c.MaxAge != 0, fmt.Sprintf("max_age (the TTL of its keys) is %v; want none", c.MaxAge)},
		{c.AllowMsgTTL, "allow_msg_ttl lets a key expire by itself; want a bucket without TTLs of keys"},
		{c.SubjectDeleteMarkerTTL != 0, "it has limit markers (subject_delete_marker_ttl); want none"},
		{c.Discard != jetstream.DiscardNew, "discard is old, so it may drop an election to make room; want new"},
		{c.NoAck, "no_ack is set, so no write is acknowledged; want it off"},
		{c.Sealed, "it is sealed, and takes no writes; want another one"},
		{c.SubjectTransform != nil, "it has a subject_transform; want none"},
		{c.AllowMsgCounter, "its values are counters (allow_msg_counter); want them plain"},
		{c.MaxMsgsPerSubject < 1, "it keeps all revisions (max_msgs_per_subject), and grows with each renewal; want a history of 1 to 64"},
		{c.MaxMsgSize > 0 && c.MaxMsgSize < least, fmt.Sprintf("max_msg_size is %d; want at least %d, or none", c.MaxMsgSize, least)},
		{c.Replicas == 2, "it has 2 replicas, so it is down when either server is; want 1, 3 or 5"},
	} {
		if r.is {
			return driver.Permanent(fmt.Errorf("the bucket %s cannot hold elections: %s", name, r.what))
		}
	}
	return nil
}

// least is what a message may have at least: a record, and its headers.
const least = register.MaxRecord + 1024
