package group

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/electd/elect/driver"
)

// streamProtocol is that of the streams of a group: see [driver.Streamer].
const streamProtocol = "group"

// reach connects with a member, which has proven to be the one with that id if there are certificates.
type reach func(ctx context.Context, id, addr string) (net.Conn, error)

// direct reaches the listeners of members.
func direct(env *env, as TLS) reach {
	return func(ctx context.Context, id, addr string) (net.Conn, error) {
		nc, err := env.dial(ctx, addr)
		if err != nil || as == nil {
			return nc, err
		}
		secure := tls.Client(nc, as.Client(id))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, err
		}
		return secure, nil
	}
}

// across reaches members by the ports of the coordinator's election, as the one with the id from.
func across(s driver.Streamer, from string) reach {
	return func(ctx context.Context, id, addr string) (net.Conn, error) {
		return s.OpenStream(ctx, streamProtocol, from, id, addr)
	}
}

// carried takes from the election what its ports make superfluous, and refuses what contradicts it.
func (c *Config) carried(info driver.StreamInfo) error {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"Listener", c.Listener != nil},
		{"Listen (group-listen)", c.Listen != ""},
		{"Advertise (group-advertise)", c.Advertise != ""},
		{"TLS (group-certs)", c.TLS != nil},
		{"Insecure (group-insecure)", c.Insecure},
	} {
		if f.given {
			return fmt.Errorf("group.Config.%s is given, and the members of this group use the ports and the certificates of their coordinator's election; want it left out", f.name)
		}
	}
	if c.ID != "" && info.ID != "" && c.ID != info.ID {
		return fmt.Errorf("group.Config.ID is %q, and the participant of the coordinator's election is %q; want the same, or none", c.ID, info.ID)
	}
	c.ID = cmp.Or(c.ID, info.ID)
	return nil
}

// shown is what the other side of a connection has proven of itself.
type shown struct {
	id       string // of a member; "" if it has proven none
	any      bool   // it is believed to be any member
	readOnly bool   // it may ask, and change nothing
}

// is reports whether the other side is believed to be that member.
func (s shown) is(id string) bool { return s.id == id || s.id == "" && s.any }
