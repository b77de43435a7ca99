package policyfile_test

import (
	"context"
	"fmt"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
)

// A service decides by a policy of a file that can be reviewed and validated.
func Example() {
	file, err := policyfile.Parse("limitctl.yaml", []byte(`
policies:
  login:
    on_error: deny
    limits:
      - {name: ip-hour, by: [ip], limit: 100/1h}
      - {name: email-minute, by: [email], limit: 2/1m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	// A real service has a Redis here, with the file's prefix: redisstore.WithPrefix(file.Prefix).
	policies, err := policyfile.NewRuntime(file, memorystore.New(), limiter.Observer{
		OnFailure: func(err error) { fmt.Println("decided without the store:", err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer policies.Close()
	for range 3 {
		attributes := policy.Attributes{"ip": "203.0.113.9", "email": "ada@example.com"}
		decisions, err := policies.Take(context.Background(), "login", attributes, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("allowed", decisions.Allowed(), "denied by", decisions.DeniedBy())
	}
	// Output:
	// allowed true denied by []
	// allowed true denied by []
	// allowed false denied by [1]
}
