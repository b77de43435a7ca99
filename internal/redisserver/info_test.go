package redisserver_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

// A field with a meaning for the doctor stays unchanged, whatever the password is.
func TestRedactField(t *testing.T) {
	for _, c := range []struct{ secret, value, want string }{
		{"hunter2", "7.0.0-hunter2", "7.0.0-xxxxx"},
		{"master", "master", "master"},
		{"1", "1", "1"},
		{"7.4", "7.4.1", "7.4.1"},
		{"on", "ip=a,port=1,state=online,offset=4", "ip=a,port=1,state=online,offset=4"},
		{"on", "ip=london,state=online", "ip=its text is withheld, since the password may be in it,state=online"},
		{"a,b=c", "ip=a,b=c,d", "ip=xxxxx,d"},
	} {
		client := redis.NewClient(&redis.Options{Password: c.secret})
		defer client.Close()
		if got := redisserver.New(client, "").RedactField(c.value); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.secret, c.value, got, c.want)
		}
	}
}
