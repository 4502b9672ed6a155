package s3

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// fileCredentials are those of a profile in a shared file of AWS's tools, which is read for each request, because
// another program may renew them.
type fileCredentials struct{ file, profile string }

// Retrieve implements [aws.CredentialsProvider].
func (f fileCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	text, err := os.ReadFile(f.file)
	if err != nil {
		return aws.Credentials{}, err
	}
	c, err := profileOf(string(text), f.profile)
	if err != nil {
		return c, fmt.Errorf("%s: %w", f.file, err)
	}
	return c, nil
}

// profileOf reads the credentials of a profile. Its errors show nothing of the text.
func profileOf(text, profile string) (c aws.Credentials, err error) {
	in, found := false, false
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			in = strings.TrimSpace(strings.TrimSuffix(name, "]")) == profile
			found = found || in
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !in || !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(key)) {
		case "aws_access_key_id":
			c.AccessKeyID = value
		case "aws_secret_access_key":
			c.SecretAccessKey = value
		case "aws_session_token":
			c.SessionToken = value
		}
	}
	switch {
	case lines.Err() != nil:
		return aws.Credentials{}, errors.New("a line is too long; want the form of AWS's shared file")
	case !found:
		return aws.Credentials{}, fmt.Errorf("no profile [%.60s]; want it, or another in profile=NAME or AWS_PROFILE", profile)
	case c.AccessKeyID == "" || c.SecretAccessKey == "":
		return aws.Credentials{}, fmt.Errorf("the profile [%.60s] lacks aws_access_key_id or aws_secret_access_key; want both: roles, single sign-on and credential_process are not read here", profile)
	}
	c.Source = "shared file"
	return c, nil
}

// credentials is where they are, by the URL; "" is not given.
type credentials struct{ profile, file string }

// provider returns the credentials of the environment, or those of the shared file.
func (p credentials) provider(env func(string) string) (aws.CredentialsProvider, error) {
	id, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")
	if p.profile == "" && p.file == "" && (id != "" || secret != "") {
		if id == "" || secret == "" {
			return nil, errors.New("one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; want both")
		}
		c := aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: env("AWS_SESSION_TOKEN"), Source: "environment"}
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return c, nil }), nil
	}
	f := fileCredentials{file: cmp.Or(p.file, env("AWS_SHARED_CREDENTIALS_FILE")), profile: cmp.Or(p.profile, env("AWS_PROFILE"), "default")}
	if f.file == "" {
		f.file = filepath.Join(env("HOME"), ".aws", "credentials")
	}
	if _, err := f.Retrieve(context.Background()); err != nil {
		return nil, fmt.Errorf("no credentials: %w; want AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a shared file (credentials_file=FILE); roles of machines and pods need a program that renews such a file, or package store/s3", err)
	}
	return f, nil
}
