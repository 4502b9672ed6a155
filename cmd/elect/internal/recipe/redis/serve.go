package redis

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of clients.
const (
	maxClients   = 2000
	maxWaiting   = 128              // replies and messages that a client has not taken
	maxTopics    = 64               // channels of a client, and as many patterns
	maxTries     = 3                // of a password
	greetingTime = 10 * time.Second // within which a client authenticates itself
	writeTime    = 5 * time.Second
)

// clients are the connections to the port of an elector, of clients and of other electors.
type clients struct {
	e        *Elector
	password string

	mu   sync.Mutex
	all  map[*client]bool
	last int
}

func newClients(e *Elector, password string) *clients {
	return &clients{e: e, password: password, all: map[*client]bool{}}
}

// client is one connection. Its reader owns what is not guarded.
type client struct {
	of       *clients
	c        net.Conn
	id       int
	name     string
	protocol int
	known    bool // it has authenticated itself, or needs not
	tries    int
	seal     *seal // of an elector
	quit     bool
	out      chan []byte // closed by nobody; done says when it ends
	done     chan struct{}
	end      sync.Once

	mu       sync.Mutex
	channels []string
	patterns []string
}

// serve accepts until ctx ends, and returns when all connections have ended.
func (s *clients) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = s.e.listener.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		raw, err := s.e.listener.Accept()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as too many open files
			s.e.log.Warn("a client cannot be accepted", "error", err)
			wait(ctx, 100*time.Millisecond)
			continue
		}
		c := s.add(raw)
		if c == nil {
			_ = raw.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = raw.Write(appendReply(nil, 2, replyError("ERR max number of clients reached")))
			_ = raw.Close()
			continue
		}
		wg.Go(func() {
			stop := context.AfterFunc(ctx, c.close)
			defer stop()
			c.run()
		})
	}
}

func (s *clients) add(raw net.Conn) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxClients {
		return nil
	}
	s.last++
	c := &client{of: s, c: raw, id: s.last, protocol: 2, known: s.password == "", out: make(chan []byte, maxWaiting), done: make(chan struct{})}
	s.all[c] = true
	return c
}

// publish sends a message to the subscribers of its channel. One that does not read is dropped.
func (s *clients) publish(channel, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		for _, m := range c.matching(channel) {
			m = append(m, channel, message)
			select {
			case c.out <- appendReply(nil, c.speaks(), push(m)):
			default:
				c.close()
			}
		}
	}
}

// matching begins one message for each subscription of a channel.
func (c *client) matching(channel string) (all [][]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.channels, channel) {
		all = append(all, []any{"message"})
	}
	for _, p := range c.patterns {
		if ok, err := path.Match(p, channel); ok && err == nil {
			all = append(all, []any{"pmessage", p})
		}
	}
	return all
}

func (c *client) speaks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.protocol
}

func (c *client) close() {
	c.end.Do(func() {
		close(c.done)
		_ = c.c.Close()
	})
}

// run reads requests and answers them until the connection ends.
func (c *client) run() {
	var wg sync.WaitGroup
	wg.Go(c.write)
	defer func() {
		c.of.mu.Lock()
		delete(c.of.all, c)
		c.of.mu.Unlock()
		c.close()
		wg.Wait()
	}()
	r := bufio.NewReaderSize(c.c, 1<<12)
	if !c.known {
		_ = c.c.SetReadDeadline(time.Now().Add(greetingTime))
	}
	for !c.quit {
		b := strangers()
		if c.known {
			b = friends()
		}
		args, err := readRequest(r, b)
		if errors.Is(err, errProtocol) {
			c.send(replyError("ERR Protocol error: " + err.Error()))
			c.flush()
			return
		}
		if err != nil {
			return
		}
		if len(args) == 0 {
			continue
		}
		known := c.known
		for _, v := range c.answer(args) {
			if !c.send(v) {
				return
			}
		}
		if c.known && !known {
			_ = c.c.SetReadDeadline(time.Time{})
		}
	}
	c.flush()
}

// send queues a reply. It waits for a slow client, for a bounded time: write has a deadline.
func (c *client) send(v any) bool {
	select {
	case c.out <- appendReply(nil, c.speaks(), v):
		return true
	case <-c.done:
		return false
	}
}

// flush waits until what is queued was written.
func (c *client) flush() {
	written := make(chan struct{})
	go func() { // an empty reply is a mark
		defer close(written)
		select {
		case c.out <- nil:
		case <-c.done:
		}
		for len(c.out) > 0 {
			select {
			case <-c.done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	<-written
}

func (c *client) write() {
	for {
		select {
		case b := <-c.out:
			_ = c.c.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := c.c.Write(b); err != nil {
				c.close()
				return
			}
		case <-c.done:
			return
		}
	}
}

// answer answers one request: with one reply, or one for each channel.
func (c *client) answer(args []string) []any {
	verb := strings.ToUpper(args[0])
	rest := args[1:]
	wrong := func() []any {
		return []any{replyError("ERR wrong number of arguments for '" + printable(strings.ToLower(verb)) + "' command")}
	}
	switch verb {
	case "HELLO":
		return []any{c.hello(rest)}
	case "AUTH":
		switch len(rest) {
		case 1:
			return []any{c.auth("default", rest[0])}
		case 2:
			return []any{c.auth(rest[0], rest[1])}
		}
		return wrong()
	case "QUIT":
		c.quit = true
		return []any{simple("OK")}
	}
	if !c.known {
		return []any{replyError("NOAUTH Authentication required.")}
	}
	c.mu.Lock()
	subscribed := c.protocol == 2 && len(c.channels)+len(c.patterns) > 0
	c.mu.Unlock()
	switch verb {
	case "PING":
		switch {
		case len(rest) > 1:
			return wrong()
		case subscribed:
			return []any{[]any{"pong", strings.Join(rest, "")}}
		case len(rest) == 1:
			return []any{rest[0]}
		}
		return []any{simple("PONG")}
	case "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
		if len(rest) == 0 && !strings.Contains(verb, "UN") {
			return wrong()
		}
		return c.subscriptions(verb, rest)
	case "CLIENT":
		if len(rest) == 0 {
			return wrong()
		}
		return []any{c.client(strings.ToUpper(rest[0]), rest[1:])}
	case "SENTINEL":
		if len(rest) == 0 {
			return wrong()
		}
		return []any{c.sentinel(strings.ToUpper(rest[0]), rest[1:])}
	case "ELECT":
		return []any{c.elector(rest)}
	case "INFO":
		return []any{c.of.e.infoText()}
	case "ROLE":
		return []any{[]any{"sentinel", []any{c.of.e.cfg().Name}}}
	case "COMMAND":
		return []any{[]any{}}
	case "RESET":
		c.mu.Lock()
		c.channels, c.patterns, c.protocol = nil, nil, 2
		c.mu.Unlock()
		return []any{simple("RESET")}
	}
	return []any{replyError("ERR unknown command '" + printable(args[0]) + "'")}
}

// printable is a part of a request as it may be in an error.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), 64)]
}

func (c *client) hello(args []string) any {
	protocol := c.protocol
	if len(args) > 0 {
		switch args[0] {
		case "2":
			protocol = 2
		case "3":
			protocol = 3
		default:
			return replyError("NOPROTO unsupported protocol version")
		}
		args = args[1:]
	}
	name := c.name
	for len(args) > 0 {
		switch option := strings.ToUpper(args[0]); {
		case option == "AUTH" && len(args) >= 3:
			if e, failed := c.auth(args[1], args[2]).(replyError); failed {
				return e
			}
			args = args[3:]
		case option == "SETNAME" && len(args) >= 2:
			name, args = args[1], args[2:]
		default:
			return replyError("ERR Syntax error in HELLO option '" + printable(args[0]) + "'")
		}
	}
	if !c.known {
		return replyError("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	c.mu.Lock()
	c.protocol = protocol
	c.mu.Unlock()
	c.name = name
	return hello{spokenVersion, c.id}
}

func (c *client) auth(user, password string) any {
	s := c.of
	if s.password == "" {
		return replyError("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	want := s.e.cfg().Listen.User
	if want == "" {
		want = "default"
	}
	if subtle.ConstantTimeCompare([]byte(user), []byte(want))&subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) != 1 {
		if c.tries++; c.tries >= maxTries {
			c.quit = true
		}
		return replyError("WRONGPASS invalid username-password pair or user is disabled.")
	}
	c.known = true
	return simple("OK")
}

func (c *client) client(verb string, args []string) any {
	switch {
	case verb == "SETNAME" && len(args) == 1:
		c.name = args[0]
		return simple("OK")
	case verb == "GETNAME" && len(args) == 0:
		if c.name == "" {
			return nil
		}
		return c.name
	case verb == "SETINFO" && len(args) == 2, verb == "NO-EVICT" && len(args) == 1, verb == "NO-TOUCH" && len(args) == 1:
		return simple("OK")
	case verb == "ID" && len(args) == 0:
		return c.id
	}
	return replyError("ERR unknown subcommand '" + printable(verb) + "'. Try CLIENT ID, GETNAME, SETINFO or SETNAME.")
}

// subscriptions changes the subscriptions, and has one reply for each.
func (c *client) subscriptions(verb string, names []string) (replies []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &c.channels
	if strings.HasPrefix(verb, "P") {
		list = &c.patterns
	}
	off := strings.Contains(verb, "UN")
	if off && len(names) == 0 {
		names = slices.Clone(*list)
	}
	for _, name := range names {
		switch i := slices.Index(*list, name); {
		case off && i >= 0:
			*list = slices.Delete(*list, i, i+1)
		case !off && i < 0 && len(*list) < maxTopics:
			*list = append(*list, name)
		}
		replies = append(replies, push{strings.ToLower(verb), name, len(c.channels) + len(c.patterns)})
	}
	if replies == nil {
		replies = []any{push{strings.ToLower(verb), nil, len(c.channels) + len(c.patterns)}}
	}
	return replies
}

// elector answers another elector.
func (c *client) elector(args []string) any {
	e := c.of.e
	switch {
	case e.secret == "":
		return replyError("ERR this elector knows no others")
	case len(args) == 2 && args[0] == "HELLO":
		c.seal = &seal{secret: e.secret, client: args[1], server: rand.Text()}
		return c.seal.server
	case len(args) == 3 && args[0] == "ASK" && c.seal != nil:
		c.seal.number++
		if !c.seal.right("question", args[1], args[2]) {
			c.quit = true
			e.once("secret", func() {
				e.log.Warn("an elector asks with another secret; want the same secret-file at all electors", "address", c.c.RemoteAddr())
			})
			return replyError("NOAUTH the electors have different secrets; want the same secret-file at all of them")
		}
		var q question
		if err := json.Unmarshal([]byte(args[1]), &q); err != nil {
			return replyError("ERR the question cannot be read; want electors of one version")
		}
		text, err := json.Marshal(e.answer(q))
		if err != nil {
			return replyError("ERR " + err.Error())
		}
		return []any{string(text), c.seal.mac("answer", string(text))}
	}
	return replyError("ERR an unknown question")
}
