package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// Open is the opener of URLs such as
//
//	s3://BUCKET/PREFIX?region=eu-central-1
//	s3://BUCKET?endpoint=https://minio:9000
//
// The object of an election is PREFIX/NAME. The parameters are
//
//	lease=30s  max_lease=1m  poll=8s  era=N  flight=DIR  endpoint=URL  region=NAME  path_style=off
//
// as in [Config] (path_style=off is VirtualHost), and
//
//	profile=NAME  credentials_file=FILE
//
// What the URL does not have is taken from the environment of AWS's tools: AWS_REGION, AWS_DEFAULT_REGION,
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE,
// AWS_SHARED_CREDENTIALS_FILE. Other sources of credentials, such as the roles of machines and pods, are not asked:
// hand them to [New].
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, err := parse(t.URL, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("s3: %w", err))
	}
	cfg.Logger = t.Logger
	e, err := newElector(ctx, t.Name, t.ID, cfg, t.URL)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Witness is a supervise.Witness for leaders whose election was opened by [Open]: it writes the dead leader's object
// free, so that the next one need not wait for the lease. It connects when it speaks, by the URL of the leader and the
// same files and environment.
func Witness(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return drive.Witness(testament, func(ctx context.Context, d *drive.Deceased) error {
		cfg, err := parse(d.URL, os.Getenv)
		if err != nil {
			return err
		}
		o, err := newObject(d.Name, cfg)
		if err != nil {
			return err
		}
		o.proven.Store(true) // the leader has led there
		return register.Free(ctx, o, d)
	})
}

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, env func(string) string) (cfg Config, err error) {
	if u.Opaque != "" || u.Host == "" || u.Port() != "" {
		return cfg, errors.New("the URL does not parse; want s3://BUCKET/PREFIX?region=NAME, or with endpoint=https://HOST:PORT")
	}
	if u.User != nil {
		return cfg, errors.New("a user in the URL; want the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in a shared file")
	}
	var p credentials
	var region, endpoint, style string
	if err := drive.ParseParameters(u.RawQuery,
		drive.Duration("lease", &cfg.Lease), drive.Duration("max_lease", &cfg.MaxLease), drive.Duration("poll", &cfg.Poll), drive.Era(&cfg.Era),
		drive.Text("flight", &cfg.Flight), drive.Text("endpoint", &endpoint), drive.Text("region", &region), drive.Choice("path_style", &style),
		drive.Text("profile", &p.profile), drive.Text("credentials_file", &p.file),
	); err != nil {
		return cfg, err
	}
	cfg.Bucket, cfg.Prefix = u.Host, strings.Trim(u.Path, "/")
	cfg.Endpoint = cmp.Or(endpoint, env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"))
	cfg.Region = cmp.Or(region, env("AWS_REGION"), env("AWS_DEFAULT_REGION"))
	if cfg.VirtualHost = style == "off"; style != "" && cfg.Endpoint == "" {
		return cfg, errors.New("path_style without an endpoint; want none: AWS has the bucket in the host")
	}
	if cfg.Endpoint == "" && cfg.Region == "" {
		return cfg, errors.New("no region; want region=NAME or AWS_REGION, or endpoint=URL of another store")
	}
	cfg.Credentials, err = p.provider(env)
	return cfg, err
}
