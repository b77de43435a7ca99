package grpc

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"
)

// The paths of the methods of grpc.health.v1.Health. Envoy and Kubernetes call Check, clients of gRPC call Watch.
const (
	HealthCheck = "/grpc.health.v1.Health/Check"
	HealthWatch = "/grpc.health.v1.Health/Watch"
)

// The states of a service.
const (
	serving        = 1
	notServing     = 2
	serviceUnknown = 3
)

// Health returns methods for [HealthCheck] and [HealthWatch] that know these services, and the empty one, which is the
// server. They serve as long as ready reports it. An unknown service is not found, and can be watched.
func Health(ready func() bool, services ...string) (Method, Watch) {
	known := map[string]bool{"": true}
	for _, service := range services {
		known[service] = true
	}
	appendState := func(to []byte, state uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(to, 1, protowire.VarintType), state)
	}
	state := func() uint64 {
		if ready() {
			return serving
		}
		return notServing
	}
	check := func(_ context.Context, request, response []byte) ([]byte, error) {
		service, err := serviceIn(request)
		if err != nil {
			return nil, err
		}
		if !known[service] {
			return nil, &Status{NotFound, "unknown service"}
		}
		return appendState(response, state()), nil
	}
	watch := func(request []byte) (func() []byte, error) {
		service, err := serviceIn(request)
		if err != nil {
			return nil, err
		}
		if !known[service] {
			return func() []byte { return appendState(nil, serviceUnknown) }, nil
		}
		return func() []byte { return appendState(nil, state()) }, nil
	}
	return check, watch
}

// serviceIn returns the service in a HealthCheckRequest.
func serviceIn(request []byte) (service string, err error) {
	if !eachField(request, func(number protowire.Number, value []byte) {
		if number == 1 {
			service = string(value)
		}
	}) {
		return "", errNotHealth
	}
	return service, nil
}

var errNotHealth = &Status{InvalidArgument, "the request is not a HealthCheckRequest"}
