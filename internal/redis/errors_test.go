package redisserver

import (
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A refusal names the key or the command, for each generation of servers: 6.0 to 7.0 directly and from a script,
// and Redis 7.2 and Valkey.
func TestARefusalNamesWhatIsMissing(t *testing.T) {
	const key = `the user lacks the right to use key "rl:{a}:x"`
	const command = "the user lacks the right to run EVALSHA (ACL SETUSER … +evalsha)"
	const channel = "NOPERM No permissions to access a channel"
	for reply, want := range map[string]string{
		"NOPERM this user has no permissions to access one of the keys used as " +
			"arguments": key,
		"NOPERM The user executing the script can't access at least one of the " +
			"keys": key,
		"NOPERM No permissions to access a key":                               key,
		"ERR ACL failure in script: No permissions to access a key script: 1": key,
		"NOPERM this user has no permissions to run the 'evalsha' " +
			"command": command,
		"NOPERM User reader has no permissions to run the 'evalsha' " +
			"command": command,
		"ERR ACL failure in script: User a has no permissions to run the 'evalsha' command script: 1, on " +
			"@user_script:7.": command,
		channel: channel,
		"ERR Error compiling script (new function): <script>:16: Script attempted to access nonexistent global " +
			"variable 'struct'": noStruct,
		"ERR The user executing the script can't run this command or subcommand": "the user lacks the right to run " +
			"GETRANGE (ACL SETUSER … +getrange)",
	} {
		want = store.ErrRefused.Error() + ": redis at : " + want
		if got := new(Servers).ExplainCall(cleanAnswer(reply), Call{Keys: []string{"rl:{a}:x"}}); got.Error() != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", reply, got, want)
		}
	}
}
