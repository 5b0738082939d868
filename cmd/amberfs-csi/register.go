package main

import (
	"context"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// A registration answers the node's kubelet, which searches for drivers: the kubelet watches a directory for sockets,
// and asks at each of them for the socket of a driver.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	d      *driver
	socket string // the socket of the driver
}

// register serves the registration on a socket in dir.
func (d *driver) register(dir, socket string) (*grpc.Server, error) {
	l, err := listen(filepath.Join(dir, driverName+"-reg.sock"))
	if err != nil {
		return nil, err
	}

	s := grpc.NewServer()
	registerapi.RegisterRegistrationServer(s, registration{d: d, socket: socket})
	go func() {
		if err := s.Serve(l); err != nil {
			d.log.Error("the registration ended", "err", err)
		}
	}()

	return s, nil
}

func (r registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: driverName, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus receives the kubelet's answer to the registration.
func (r registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		r.d.log.Error("the kubelet refuses the driver", "err", s.GetError())
		return nil, status.Error(codes.FailedPrecondition, s.GetError())
	}
	r.d.log.Info("the kubelet has registered the driver")
	return &registerapi.RegistrationStatusResponse{}, nil
}
