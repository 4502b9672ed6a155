// Command dropin is the candidate in ../../clientgo/main.go with one import changed: tests build it with that file as an
// overlay. This file says what its module requires for that.
package main

import (
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "k8s.io/client-go/tools/leaderelection/resourcelock"

	_ "github.com/electd/elect/adapter/leaderelection"
)
