module github.com/limitctl/limitctl/docs/envoy-client

go 1.26.0

replace github.com/limitctl/limitctl => ../..
