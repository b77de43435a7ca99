package grpc

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"
)

// HealthCheck is the path of grpc.health.v1's unary method, which Envoy and Kubernetes call.
const HealthCheck = "/grpc.health.v1.Health/Check"

// Health returns a method for [HealthCheck] that knows these services, and the empty one, which is the server. They
// serve as long as ready reports it. An unknown service is not found.
func Health(ready func() bool, services ...string) Method {
	known := map[string]bool{"": true}
	for _, service := range services {
		known[service] = true
	}
	return func(_ context.Context, request, response []byte) ([]byte, error) {
		service := ""
		for len(request) > 0 {
			number, kind, n := protowire.ConsumeTag(request)
			if n < 0 {
				return nil, errNotHealth
			}
			request = request[n:]
			if number == 1 && kind == protowire.BytesType {
				value, n := protowire.ConsumeBytes(request)
				if n < 0 {
					return nil, errNotHealth
				}
				service, request = string(value), request[n:]
				continue
			}
			if n = protowire.ConsumeFieldValue(number, kind, request); n < 0 {
				return nil, errNotHealth
			}
			request = request[n:]
		}
		if !known[service] {
			return nil, &Status{NotFound, "unknown service"}
		}
		const serving, notServing = 1, 2
		status := uint64(notServing)
		if ready() {
			status = serving
		}
		return protowire.AppendVarint(protowire.AppendTag(response, 1, protowire.VarintType), status), nil
	}
}

var errNotHealth = &Status{InvalidArgument, "the request is not a HealthCheckRequest"}
