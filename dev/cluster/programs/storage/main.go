// The cluster's storage: every claim gets the directory of this machine that its class names, as claims on a file server
// do whose driver gives all of them one folder. Deleting a claim deletes no file.
package main

import (
	"context"
	"flag"
	"log"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const name = "tessera.sh/one-directory"

type oneDirectory struct{}

func (oneDirectory) Provision(_ context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	here := v1.HostPathDirectory
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      o.PVC.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			PersistentVolumeSource: v1.PersistentVolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: o.StorageClass.Parameters["directory"], Type: &here},
			},
		},
	}, controller.ProvisioningFinished, nil
}

func (oneDirectory) Delete(context.Context, *v1.PersistentVolume) error { return nil }

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an account that may make volumes")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	controller.NewProvisionController(
		ctx, client, name, oneDirectory{}, controller.LeaderElection(false),
	).Run(ctx)
}
