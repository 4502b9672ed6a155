// Command operator is a manager of controller-runtime under an election of elect. While it leads its controller writes a
// line with its wall clock, in nanoseconds, every 20 ms for the ConfigMap that it reconciles. It ends with 1 when it has
// lost leadership.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/electd/elect"
	"github.com/electd/elect/adapter/controllerruntime"
	"github.com/electd/elect/store/kubernetes"
)

func main() {
	name, id := flag.String("name", "", ""), flag.String("id", "", "")
	lease := flag.Duration("lease", 15*time.Second, "")
	flag.Parse()
	config, err := ctrl.GetConfig() // by -kubeconfig, its flag
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		err = manage(ctx, config, *name, *id, kubernetes.Config{Lease: *lease}, stamps{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stamps is the reconciler.
type stamps struct{}

// Reconcile implements [reconcile.Reconciler].
func (stamps) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if controllerruntime.TermOf(ctx).Check() == nil {
		fmt.Println(time.Now().UnixNano())
	}
	return reconcile.Result{RequeueAfter: 20 * time.Millisecond}, nil
}

// snippet: manager
func manage(
	ctx context.Context, config *rest.Config, name, id string, cfg kubernetes.Config, r reconcile.Reconciler,
) error {
	inner, err := ctrl.NewManager(config, ctrl.Options{ // without LeaderElection
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	elector, err := kubernetes.New(ctx, at, inner.GetHTTPClient(), name, id, cfg)
	if err != nil {
		return err
	}
	election, err := elect.New(elector, elect.Config{})
	if err != nil {
		return errors.Join(err, elector.Close())
	}
	defer election.Close()
	mgr := controllerruntime.Wrap(inner, election)
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// end
