package kubernetes

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/secure"
)

// access is how a process reaches a cluster, and what tells two ways apart: elections with the same one share
// connections. It contains secrets.
type access struct {
	server, serverName, ca, proxy string // ca is PEM; "": the authorities of the system
	insecure                      bool
	token, tokenFile              string
	cert, certKey                 string // PEM
	certFile, certKeyFile         string
	namespace                     string // where the election is unless the URL says otherwise
}

// account is where Kubernetes puts what a pod needs.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// find returns the access for a URL's parameters kubeconfig and context: by a file if one is named there or in
// KUBECONFIG, by the account of the pod, or by the file of kubectl.
func find(file, name string, env func(string) string, account string) (access, error) {
	list := filepath.SplitList(env("KUBECONFIG"))
	switch host := env("KUBERNETES_SERVICE_HOST"); {
	case file != "":
		if _, err := os.Stat(file); err != nil {
			return access{}, err
		}
		list = []string{file}
	case len(list) == 0 && name == "" && host != "":
		return inCluster(host, cmp.Or(env("KUBERNETES_SERVICE_PORT"), "443"), account)
	case len(list) == 0:
		home, err := os.UserHomeDir()
		if err != nil {
			return access{}, fmt.Errorf("no kubeconfig: %w; want kubeconfig=FILE", err)
		}
		list = []string{filepath.Join(home, ".kube", "config")}
	}
	return byFiles(list, name)
}

func inCluster(host, port, account string) (access, error) {
	a := access{server: "https://" + net.JoinHostPort(host, port), tokenFile: filepath.Join(account, "token")}
	ca, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err == nil {
		_, err = os.ReadFile(a.tokenFile)
	}
	if err != nil {
		return access{}, fmt.Errorf("the account of the pod: %w; want automountServiceAccountToken: true, or kubeconfig=FILE", err)
	}
	a.ca = string(ca)
	if text, err := os.ReadFile(filepath.Join(account, "namespace")); err == nil {
		a.namespace = strings.TrimSpace(string(text))
	}
	return a, nil
}

// kubeconfig is what an election needs of such a file.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
}

type cluster struct {
	Server     string `yaml:"server"`
	CA         string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
	ServerName string `yaml:"tls-server-name"`
	Proxy      string `yaml:"proxy-url"`
}

type user struct {
	Cert         string    `yaml:"client-certificate"`
	CertData     string    `yaml:"client-certificate-data"`
	Key          string    `yaml:"client-key"`
	KeyData      string    `yaml:"client-key-data"`
	Token        string    `yaml:"token"`
	TokenFile    string    `yaml:"tokenFile"`
	Username     string    `yaml:"username"`
	As           string    `yaml:"as"`
	Exec         yaml.Node `yaml:"exec"`
	AuthProvider yaml.Node `yaml:"auth-provider"`
}

// byFiles reads a list of kubeconfig files. What is there twice counts where it is first, as for kubectl.
func byFiles(list []string, name string) (access, error) {
	var all kubeconfig
	read := 0
	for _, file := range list {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // as for kubectl
		} else if err != nil {
			return access{}, err
		}
		one, err := parseFile(text, filepath.Dir(file))
		if err != nil {
			return access{}, fmt.Errorf("%s: %w", file, err)
		}
		read++
		all.CurrentContext = cmp.Or(all.CurrentContext, one.CurrentContext)
		all.Clusters, all.Users, all.Contexts = append(all.Clusters, one.Clusters...), append(all.Users, one.Users...), append(all.Contexts, one.Contexts...)
	}
	where := strings.Join(list, ", ")
	if read == 0 {
		return access{}, fmt.Errorf("%s is not there; want kubeconfig=FILE, or to run in a pod", where)
	}
	a, err := all.access(cmp.Or(name, all.CurrentContext))
	if err != nil {
		return access{}, fmt.Errorf("%s: %w", where, err)
	}
	return a, nil
}

// parseFile reads one file. The names of files in it begin at its directory.
func parseFile(text []byte, dir string) (c kubeconfig, err error) {
	if err := yaml.Unmarshal(text, &c); err != nil {
		return c, errors.New("it is not a kubeconfig; want YAML as kubectl config view shows it") // the error could show a secret
	}
	at := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for i := range c.Clusters {
		at(&c.Clusters[i].Cluster.CA)
	}
	for i := range c.Users {
		u := &c.Users[i].User
		at(&u.Cert)
		at(&u.Key)
		at(&u.TokenFile)
	}
	return c, nil
}

// access is that of a context.
func (c *kubeconfig) access(name string) (a access, err error) {
	if name == "" {
		return a, errors.New("no current-context; want one, or context=NAME")
	}
	for _, in := range c.Contexts {
		if in.Name != name {
			continue
		}
		a.namespace = in.Context.Namespace
		if err := c.cluster(&a, in.Context.Cluster); err != nil {
			return access{}, err
		}
		if err := c.user(&a, in.Context.User); err != nil {
			return access{}, fmt.Errorf("user %.60q: %w", in.Context.User, err)
		}
		return a, nil
	}
	return a, fmt.Errorf("no context %.60q; want one that kubectl config get-contexts lists", name)
}

func (c *kubeconfig) cluster(a *access, name string) error {
	for _, in := range c.Clusters {
		if in.Name != name {
			continue
		}
		k := in.Cluster
		ca, err := data(k.CAData, k.CA, "certificate-authority")
		a.server, a.serverName, a.ca, a.proxy, a.insecure = k.Server, k.ServerName, ca, k.Proxy, k.Insecure
		return err
	}
	return fmt.Errorf("no cluster %.60q; want one that kubectl config get-clusters lists", name)
}

func (c *kubeconfig) user(a *access, name string) error {
	if name == "" {
		return nil // nobody
	}
	for _, in := range c.Users {
		if in.Name != name {
			continue
		}
		u := in.User
		const want = "want a token, a tokenFile or client certificates, for one of kubectl create token"
		switch {
		case !u.Exec.IsZero():
			return errors.New("it has an exec plugin, which elect does not run; " + want)
		case !u.AuthProvider.IsZero():
			return errors.New("it has an auth-provider, which elect does not know; " + want)
		case u.Username != "":
			return errors.New("it has a username, which Kubernetes takes no more; " + want)
		case u.As != "":
			return errors.New("it acts as another user, which elect does not; " + want)
		case (u.Cert != "" || u.CertData != "") != (u.Key != "" || u.KeyData != ""):
			return errors.New("one of client-certificate and client-key; want both, or neither")
		}
		a.token, a.tokenFile = u.Token, u.TokenFile
		if u.TokenFile != "" { // it is the newer one
			a.token = ""
		}
		if u.CertData == "" && u.KeyData == "" {
			a.certFile, a.certKeyFile = u.Cert, u.Key
			return nil
		}
		var err error
		if a.cert, err = data(u.CertData, u.Cert, "client-certificate"); err == nil {
			a.certKey, err = data(u.KeyData, u.Key, "client-key")
		}
		return err
	}
	return fmt.Errorf("no such user; want one that kubectl config get-users lists")
}

// data is what is inline, or in a file.
func data(inline, file, what string) (string, error) {
	if inline != "" {
		text, err := base64.StdEncoding.DecodeString(inline)
		if err != nil {
			return "", fmt.Errorf("%s-data is not base64; want PEM in base64", what)
		}
		return string(text), nil
	}
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

// open makes the clients. It connects to nothing.
func (a *access) open() (*api, func() error, error) {
	server, err := url.Parse(a.server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" || server.User != nil {
		return nil, nil, errors.New("the server of the cluster does not parse; want https://HOST:PORT")
	}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
	}
	if a.proxy != "" {
		proxy, err := url.Parse(a.proxy)
		if err != nil || proxy.Host == "" {
			return nil, nil, errors.New("the proxy-url of the cluster does not parse; want http://HOST:PORT")
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	if t.TLSClientConfig, err = a.tls(); err != nil {
		return nil, nil, err
	}
	// Requests have a connection each at a time: one that is not answered does not hold up the next. Watches share one,
	// which is tried when it is silent.
	watches := t.Clone()
	for _, of := range []*http.Transport{t, watches} {
		of.Protocols = &http.Protocols{}
		of.Protocols.SetHTTP1(true)
	}
	watches.Protocols.SetHTTP2(true)
	watches.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 10 * time.Second}
	client := func(t *http.Transport) *http.Client {
		return &http.Client{Transport: &bearer{a, t}, CheckRedirect: followNone}
	}
	return &api{server: server, requests: client(t), watches: client(watches)}, func() error {
		t.CloseIdleConnections()
		watches.CloseIdleConnections()
		return nil
	}, nil
}

// tls is how connections are secured.
func (a *access) tls() (*tls.Config, error) {
	c, err := secure.TLS{On: true, ServerName: a.serverName, Authority: a.ca, Cert: a.certFile, Key: a.certKeyFile}.Config()
	if err != nil {
		return nil, err
	}
	if c.InsecureSkipVerify = a.insecure; a.cert != "" {
		pair, err := tls.X509KeyPair([]byte(a.cert), []byte(a.certKey))
		if err != nil {
			return nil, fmt.Errorf("client-certificate-data: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// followNone has redirects be answers: where they lead would get the token.
func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bearer adds the token to requests. A token in a file is read for each of them: Kubernetes replaces it every hour.
type bearer struct {
	*access
	next *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token := b.token
	if b.tokenFile != "" {
		text, err := os.ReadFile(b.tokenFile)
		if err != nil {
			return nil, err
		}
		token = string(bytes.TrimSpace(text))
	}
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(r)
}

// untrusted marks the error of a connection whose certificates are refused for good.
func untrusted(err error) error {
	if _, lasting := secure.Remedy(err); lasting {
		return driver.Permanent(fmt.Errorf("%w; want the certificate-authority of the cluster, a server that its certificate names, and a client-certificate that it accepts", err))
	}
	return err
}
