package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/cmd/elect/internal/config"
)

// Client asks electors, for an operator. Its methods may be called by any number of goroutines.
type Client struct {
	cfg    *Config
	dialer *dialer
}

// NewClient makes a client of the electors of a configuration. It reads the password of clients.
func NewClient(cfg *Config) (*Client, error) {
	c := &Client{cfg, &dialer{user: cfg.Listen.User}}
	var err error
	if c.dialer.password, err = config.ReadSecret("listen.password-file", cfg.Listen.Password, 1); err != nil {
		return nil, err
	}
	if cfg.Listen.CA != "" {
		c.dialer.tls, err = tlsOf(cfg.Listen.CA, "", "")
	}
	return c, err
}

func (c *Client) ask(ctx context.Context, address string, limit time.Duration, args ...string) (any, error) {
	conn, err := c.dialer.open(ctx, address, "elect-recipe", min(limit, 5*time.Second))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return conn.one(limit, args...)
}

// Status asks the elector at an address what it knows.
func (c *Client) Status(ctx context.Context, address string) (s Status, err error) {
	v, err := c.ask(ctx, address, 5*time.Second+c.cfg.patience(), "SENTINEL", "ELECT-STATUS")
	if err != nil {
		return s, err
	}
	text, _ := v.(string)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("%s is no elector of a recipe: %w", address, err)
	}
	return s, nil
}

// Failover has the acting elector hand over to a server, or to the best one if to is empty. It asks the electors one
// after the other, this one first, until one has an answer, and returns when the new master was announced.
func (c *Client) Failover(ctx context.Context, to string) error {
	var errs []error
	for i := range len(c.cfg.Electors) + 1 {
		e := ElectorEntry{c.cfg.ID, c.cfg.Listen.Address}
		if i > 0 {
			if e = c.cfg.Electors[i-1]; e.ID == c.cfg.ID {
				continue
			}
		}
		args := []string{"SENTINEL", "FAILOVER", c.cfg.Name}
		if to != "" {
			args = append(args, to)
		}
		_, err := c.ask(ctx, e.Address, switchLimit+10*time.Second, args...)
		if _, answered := errors.AsType[replyError](err); err == nil || answered {
			return err
		}
		errs = append(errs, fmt.Errorf("elector %s: %w", e.ID, err))
	}
	return errors.Join(errs...)
}
