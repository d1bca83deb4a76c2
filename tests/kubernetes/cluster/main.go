// Command cluster is etcd, the control plane and the node agent of Kubernetes in one binary, for tests.
//
// It acts by the name it is called by (a link named kube-apiserver is the API server), or by its first argument:
// cluster etcd|kube-apiserver|kube-scheduler|kube-controller-manager|kubelet [flags of that program]
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func runCobra(newCommand func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(newCommand())) }
}

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          runCobra(apiserver.NewAPIServerCommand),
	"kube-scheduler":          runCobra(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-controller-manager": runCobra(controllermanager.NewControllerManagerCommand),
	"kubelet":                 runCobra(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, called := programs[name]; !called && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	run, known := programs[name]
	if !known {
		fmt.Fprintln(os.Stderr, "usage: cluster etcd|kube-apiserver|kube-scheduler|kube-controller-manager|kubelet [flags]")
		os.Exit(2)
	}
	run()
}
