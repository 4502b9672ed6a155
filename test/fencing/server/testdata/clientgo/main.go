// Command clientgo is a candidate of client-go's leaderelection. It has a module of its own, so that the tests that run
// it need none of what it is made of. While it takes itself for the leader it writes a line with its wall clock, in
// nanoseconds, every 20 ms. It ends when it has stopped to lead. With one import
// changed it is the candidate of adapter/leaderelection, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"k8s.io/client-go/tools/leaderelection"
)

func main() {
	config := flag.String("kubeconfig", "", "")
	namespace, name, id := flag.String("namespace", "", ""), flag.String("name", "", ""), flag.String("id", "", "")
	lease, renew, retry := flag.Duration("lease", 15*time.Second, ""), flag.Duration("renew", 10*time.Second, ""), flag.Duration("retry", 2*time.Second, "")
	release := flag.Bool("release", false, "")
	flag.Parse()
	if err := run(*config, *namespace, *name, *id, leaderelection.LeaderElectionConfig{LeaseDuration: *lease, RenewDeadline: *renew, RetryPeriod: *retry, ReleaseOnCancel: *release}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(config, namespace, name, id string, c leaderelection.LeaderElectionConfig) error {
	rest, err := clientcmd.BuildConfigFromFlags("", config)
	if err != nil {
		return err
	}
	rest.ContentType = "application/json" // so that a small server for tests understands it
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c.Lock = &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: id},
	}
	c.Name = name
	c.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			for ctx.Err() == nil {
				fmt.Println(time.Now().UnixNano())
				time.Sleep(20 * time.Millisecond)
			}
		},
		OnStoppedLeading: func() {},
	}
	e, err := leaderelection.NewLeaderElector(c)
	if err != nil {
		return err
	}
	e.Run(ctx)
	return nil
}
