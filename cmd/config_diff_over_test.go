package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Before a deploy, config publish --dry-run says how many keys have more in use than the new limit allows, and whose
// they are. A key with just as much is not over it; nor is one that is exempt, and one whose override raises the new
// limit.
func TestWhoIsOverANewLimit(t *testing.T) {
	w := newWorld(t)
	policyOf := func(limit string) string {
		return "policies:\n  api:\n    limits:\n      - name: user\n" +
			"        by: [user]\n        algorithm: sliding-log\n        limit: " + limit + "\n"
	}
	dir := t.TempDir()
	old, lower, either := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml"),
		filepath.Join(dir, "either.yaml")
	for path, text := range map[string]string{
		old: policyOf("100/1h"), lower: policyOf("10/1h"),
		either: policyOf("99/1h") + "        overrides:\n          - {when: {plan: free}, limit: 10/1h}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for user, units := range map[string]string{"ten": "10", "eleven": "11", "fifty": "50", "sixty": "60",
		"exempt": "50", "raised": "15",
		"raised-little": "25"} {
		w.run(t, exitYes, "consume", "--config", old, "--policy", "api", "user="+user, "--cost", units)
	}
	w.run(t, exitYes, "exempt", "--config", old, "--policy", "api", "user=exempt", "--for", "1h", "--reason", "x",
		"--yes")
	for _, user := range []string{"raised", "raised-little"} {
		w.run(t, exitYes, "override", "set", "--config", old, "--policy", "api", "user="+user, "--times", "2",
			"--for", "1h", "--reason", "x", "--yes")
	}
	stdout, _ := w.run(t, exitYes, "config", "publish", lower, "--dry-run", "-o", "jsonl")
	if want := `"keys":7,"example":"user:sixty","over":4}`; !strings.Contains(stdout, want) {
		t.Errorf("it says %s", stdout)
	}
	// Nobody knows whose plan is free. 11 is over the limit of that plan, and not over the other.
	stdout, _ = w.run(t, exitYes, "config", "publish", either, "--dry-run", "-o", "jsonl")
	if want := `"keys":7,"example":"user:eleven"}`; !strings.Contains(stdout, want) {
		t.Errorf("it says %s", stdout)
	}
	// Charged under its override, a key is compared with the new limit as the override changes it.
	w.run(t, exitYes, "consume", "--config", old, "--policy", "api", "user=raised")
	stdout, _ = w.run(t, exitYes, "config", "publish", lower, "--dry-run", "-o", "jsonl")
	const raised = `"old":"sliding-log:200/1h","new":"sliding-log:20/1h","keys":1,"example":"user:raised"}`
	if !strings.Contains(stdout, raised) {
		t.Errorf("it says %s", stdout)
	}
}
