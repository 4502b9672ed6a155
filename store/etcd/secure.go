package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/secure"
)

// unconnected returns why a client has no connection, which the errors of its own requests do not tell. It is nil if
// the client has one, or does not know within a second.
func unconnected(ctx context.Context, client *clientv3.Client) error {
	if client.ActiveConnection().GetState() == connectivity.Ready {
		return nil
	}
	ctx, end := context.WithTimeout(ctx, time.Second)
	defer end()
	for {
		_, err := clientv3.RetryKVClient(client).Txn(ctx, &pb.TxnRequest{}) // it does not wait for a connection
		text := status.Convert(err).Message()
		if status.Code(err) != codes.Unavailable || strings.HasPrefix(text, "etcdserver: ") {
			return nil
		}
		if _, quoted, is := strings.Cut(text, "connection error: desc = "); is {
			if plain, err := strconv.Unquote(quoted); err == nil {
				quoted = plain
			}
			return errors.New(quoted)
		}
		select { // a server that refuses the certificate may end the connection before the client has read why
		case <-time.After(20 * time.Millisecond):
			client.ActiveConnection().ResetConnectBackoff()
		case <-ctx.Done():
			return errors.New(text)
		}
	}
}

// explained adds to the error of a client's connection what would be right, and makes it permanent if only another URL
// mends it, unless the URL has other servers, which may be right.
func explained(err error, client *clientv3.Client) error {
	if err == nil {
		return nil
	}
	want, lasting := secure.Remedy(err)
	if strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
		want, lasting = "tls=off if the servers have no TLS", true
	}
	if want != "" {
		if err = fmt.Errorf("%w; want %s", err, want); lasting && len(client.Endpoints()) == 1 {
			err = driver.Permanent(err)
		}
		return err
	}
	// A server that is stopping may cause errors with these texts, too.
	plain := slices.ContainsFunc(client.Endpoints(), func(at string) bool { return strings.HasPrefix(at, "http://") })
	switch {
	case plain && strings.Contains(err.Error(), "error reading server preface"):
		return fmt.Errorf("%w; want tls=on or cacert=FILE if the servers have TLS", err)
	case !plain && strings.HasSuffix(err.Error(), "handshake failed: EOF"):
		return fmt.Errorf("%w; want tls=off if the servers have no TLS", err)
	}
	return err
}
