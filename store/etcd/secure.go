package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// unconnected returns why a client has no connection, which the errors of its own requests do not tell. It is nil if
// the client has one, or does not know yet.
func unconnected(ctx context.Context, client *clientv3.Client) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer end()
	_, err := clientv3.RetryKVClient(client).Txn(ctx, &pb.TxnRequest{}) // it does not wait for a connection
	if err == nil {
		return nil
	}
	_, text, is := strings.Cut(err.Error(), "connection error: desc = ")
	if !is {
		return nil
	}
	if plain, err := strconv.Unquote(text); err == nil {
		text = plain
	}
	return errors.New(text)
}

// remedies are what would be right, by the text of a connection's error: gRPC keeps only the text. A lasting error
// needs another URL; an expired certificate may be renewed.
var remedies = []struct {
	says, want string
	lasting    bool
}{
	{"x509: certificate signed by unknown authority", "cacert=FILE with the authority of the servers", true},
	{"x509: certificate is valid for", "server_name=NAME with a name in the certificate of the servers", true},
	{"x509: cannot validate certificate for", "server_name=NAME with a name in the certificate of the servers", true},
	{"x509: certificate has expired or is not yet valid", "a server with a valid certificate, and a clock that is right", false},
	{"first record does not look like a TLS handshake", "tls=off if the servers have no TLS", true},
	{"tls: certificate required", "cert=FILE and cert_key=FILE, with a certificate that the servers trust", true},
	{"tls: unknown certificate authority", "cert=FILE and cert_key=FILE, with a certificate that the servers trust", true},
	{"tls: bad certificate", "cert=FILE and cert_key=FILE, with a certificate that the servers trust", true},
	{"tls: expired certificate", "cert=FILE with a certificate that has not expired", false},
}

// remedy returns what would be right instead of what has caused err, or "".
func remedy(err error, client *clientv3.Client) (want string, lasting bool) {
	for _, r := range remedies {
		if strings.Contains(err.Error(), r.says) {
			return r.want, r.lasting
		}
	}
	// A server that is stopping may cause errors with these texts, too.
	plain := slices.ContainsFunc(client.Endpoints(), func(at string) bool { return strings.HasPrefix(at, "http://") })
	switch {
	case plain && strings.Contains(err.Error(), "error reading server preface"):
		return "tls=on or cacert=FILE if the servers have TLS", false
	case !plain && strings.HasSuffix(err.Error(), "handshake failed: EOF"):
		return "tls=off if the servers have no TLS", false
	}
	return "", false
}
