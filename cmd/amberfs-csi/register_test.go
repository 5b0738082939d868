package main

import (
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// TestRegister: a kubelet that finds the socket gets the path of the driver's socket.
func TestRegister(t *testing.T) {
	p := start(t, "node1")
	conn, err := grpc.NewClient("unix://"+filepath.Join(filepath.Dir(p.Store), driverName+"-reg.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kubelet := registerapi.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.GetType() != registerapi.CSIPlugin || info.GetName() != driverName || "unix://"+info.GetEndpoint() != p.Endpoint {
		t.Fatalf("the kubelet gets %v, %v", info, err)
	}
	_, err = kubelet.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{PluginRegistered: true})
	wantCode(t, "a registration", err, codes.OK)
	_, err = kubelet.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{Error: "no"})
	wantCode(t, "a refusal", err, codes.FailedPrecondition)
}
