package failed

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/store/consul"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/store/kubernetes"
	"github.com/electd/elect/store/redis"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/store/zookeeper"
)

func TestCodes(t *testing.T) {
	plain := errors.New("plain")
	denied := fmt.Errorf("mkdir /x: %w", &fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES})
	for name, c := range map[string]struct {
		err  error
		code int
		tell bool
	}{
		"not permitted":                  {Backend(fmt.Errorf("resign: %w", peer.ErrNotPermitted)), exit.NotPermitted, true},
		"opening":                        {Opening(plain), exit.Usage, true},
		"opening denied":                 {Opening(denied), exit.CannotCreate, true},
		"opening, input and output":      {Opening(fmt.Errorf("fsync: %w", syscall.EIO)), exit.CannotCreate, true},
		"opening, no such file":          {Opening(fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT})), exit.CannotCreate, true},
		"opening, said":                  {Opening(fmt.Errorf("election x: %w", exit.With(exit.Unavailable, plain))), exit.Unavailable, true},
		"opening, refused":               {Opening(fmt.Errorf("election x: %w", sqlstore.ErrRefused)), exit.Unavailable, true},
		"opening, refused by Consul":     {Opening(consul.ErrRefused), exit.Unavailable, true},
		"opening, refused by etcd":       {Opening(etcd.ErrRefused), exit.Unavailable, true},
		"opening, refused by Kubernetes": {Opening(kubernetes.ErrRefused), exit.Unavailable, true},
		"opening, refused by Redis":      {Opening(redis.ErrRefused), exit.Unavailable, true},
		"opening, refused by ZooKeeper":  {Opening(zookeeper.ErrRefused), exit.Unavailable, true},
		"opening fine":                   {Opening(nil), exit.OK, false},
		"back end":                       {Backend(plain), exit.Unavailable, true},
		"back end denied":                {Backend(denied), exit.CannotCreate, true},
		"back end read-only":             {Backend(syscall.EROFS), exit.CannotCreate, true},
		"back end full":                  {Backend(fmt.Errorf("write: %w", syscall.ENOSPC)), exit.CannotCreate, true},
		"back end over quota":            {Backend(syscall.EDQUOT), exit.CannotCreate, true},
		"back end, no leader":            {Backend(fmt.Errorf("x: %w", elect.ErrNoLeader)), exit.NoLeader, true},
		"back end, input, output":        {Backend(syscall.EIO), exit.CannotCreate, true},
		"back end, not reached":          {Backend(fmt.Errorf("dial: %w", syscall.ECONNREFUSED)), exit.Unavailable, true},
		"back end, no socket":            {Backend(fmt.Errorf("dial: %w", syscall.ENOENT)), exit.Unavailable, true},
		"back end fine":                  {Backend(nil), exit.OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			if code, tell := exit.Of(c.err); code != c.code || tell != c.tell {
				t.Errorf("Of(%v) = %d, %t; want %d, %t", c.err, code, tell, c.code, c.tell)
			}
		})
	}
	for _, err := range []error{Opening(plain), Backend(plain)} {
		if !errors.Is(err, plain) || err.Error() != "plain" {
			t.Errorf("%q hides its cause", err)
		}
	}
}
