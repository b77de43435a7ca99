package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// proxyConnections are those of the load.
const proxyConnections = 64

// nginxPlan is an application, and proxies before it: plain, with a limit of nginx's own, and with limits by auth_request.
// The application also speaks HTTP/2 without TLS.
const nginxPlan = `
pid {dir}/nginx.pid;
error_log {dir}/nginx.log;
worker_processes 1;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    limit_req_zone $binary_remote_addr zone=z:1m rate=1000000r/s;
    upstream app { server {app}; keepalive 256; keepalive_requests 100000000; }
    upstream limitctl { server {auth}; keepalive 256; keepalive_requests 100000000; }
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    server { listen {app}; location / { return 200 "hello\n"; } }
    server { listen {appH2} http2; location / { return 200 "hello\n"; } }
    server { listen {plain}; location / { proxy_pass http://app; } }
    server { listen {limited}; location / { limit_req zone=z burst=1000000 nodelay; proxy_pass http://app; } }
    server {
        listen {asking};
        location / { auth_request /limit; proxy_pass http://app; }
        location = /limit {
            internal;
            proxy_pass http://limitctl/v1/auth/site;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Method $request_method;
            proxy_set_header X-Forwarded-Uri $request_uri;
        }
    }
}
`

const proxyPlan = "policies:\n  site:\n    limits:\n      - {name: client, by: [ip], limit: 1000M/1m}\n" +
	"    http: {attributes: {ip: client}, denied_status: 403}\n"

// proxySection compares serve --proxy with nginx in front of the same application, which is nginx itself.
func proxySection(ctx context.Context, p plan, out io.Writer) (err error) {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	load, err := buildLoad(ctx, dir)
	if err != nil {
		return err
	}
	at := map[string]string{"dir": dir}
	for _, name := range []string{"app", "appH2", "plain", "limited", "asking", "auth", "proxy", "proxyH2"} {
		if at[name], err = freeAddress(); err != nil {
			return err
		}
	}
	text, config := nginxPlan, filepath.Join(dir, "limitctl.yaml")
	for name, value := range at {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	nginx := filepath.Join(dir, "nginx.conf")
	if err := errors.Join(os.WriteFile(nginx, []byte(text), 0o600), os.WriteFile(config, []byte(proxyPlan), 0o600)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the processes
	serve := func(listen string, more ...string) []string {
		return append([]string{program, "serve", "--config", config, "--store", "memory:", "--admin", "127.0.0.1:0", "--log-level", "error",
			"--listen", listen}, more...)
	}
	processes := map[string]*served{"nginx": {address: at["app"]}, "auth": {address: at["auth"]}, "proxy": {address: at["proxy"]},
		"proxyH2": {address: at["proxyH2"]}}
	for name, command := range map[string][]string{
		"nginx": {"nginx", "-c", nginx, "-e", filepath.Join(dir, "nginx.log"), "-g", "daemon off; master_process off;"},
		"auth":  serve(at["auth"]), "proxy": serve(at["proxy"], "--policy", "site", "--proxy", "http://"+at["app"]),
		"proxyH2": serve(at["proxyH2"], "--policy", "site", "--proxy", "h2c://"+at["appH2"]),
	} {
		s := processes[name]
		s.process = exec.CommandContext(ctx, command[0], command[1:]...)
		s.process.Cancel = func() error { return s.process.Process.Signal(syscall.SIGTERM) }
		s.process.Stderr = os.Stderr
		s.process.Env = append(os.Environ(), "HOME="+dir, "LIMITCTL_STORE=", "LIMITCTL_CONFIG=")
		if err := s.process.Start(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer s.stop()
		if err := s.ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	contestants := []struct{ name, address, limiter string }{
		{"the application itself", at["app"], ""},
		{"nginx, `proxy_pass`", at["plain"], ""},
		{"nginx, `limit_req`", at["limited"], ""},
		{"nginx, `auth_request` to limitctl", at["asking"], "auth"},
		{"limitctl `--proxy`", at["proxy"], "proxy"},
		{"limitctl `--proxy h2c://`", at["proxyH2"], "proxyH2"},
	}
	type measured struct{ perSecond, p50, p99, nginx, limiter float64 }
	samples := make([][]measured, len(contestants))
	for round := range p.rounds {
		progress("proxy: round %d of %d", round+1, p.rounds)
		for k := range contestants {
			i := (k + round) % len(contestants)
			c := &contestants[i]
			use := func() (nginx, limiter float64) {
				for name, into := range map[string]*float64{"nginx": &nginx, c.limiter: &limiter} {
					if s := processes[name]; s != nil {
						used, _, useErr := processUse(s.process.Process.Pid)
						err, *into = errors.Join(err, useErr), float64(used.Microseconds())
					}
				}
				return nginx, limiter
			}
			nginxBefore, before := use()
			text, runErr := exec.CommandContext(ctx, load, "-address", c.address, "-path", "/", "-body", "x",
				"-connections", fmt.Sprint(proxyConnections), "-duration", (5 * p.duration).String()).Output()
			nginxAfter, after := use()
			var report httpReport
			if exit, is := errors.AsType[*exec.ExitError](runErr); is {
				runErr = fmt.Errorf("%w: %s", runErr, exit.Stderr)
			}
			if err = errors.Join(err, runErr, json.Unmarshal(text, &report)); err != nil || report.Statuses[200] != report.Requests {
				return fmt.Errorf("%s: %v: %w", c.name, report.Statuses, err)
			}
			n := float64(report.Requests)
			samples[i] = append(samples[i], measured{report.perSecond(), report.P50, report.P99, (nginxAfter - nginxBefore) / n,
				(after - before) / n})
		}
	}
	fmt.Fprintf(out, "\n### A proxy before an application: %d connections\n", proxyConnections)
	rows := [][]string{{"", "requests a second", "÷ nginx's `proxy_pass`", "p50", "p99",
		"nginx's CPU, with the application's", "limitctl's CPU"}}
	of := func(i int, figure func(measured) float64) (values []float64) {
		for _, m := range samples[i] {
			values = append(values, figure(m))
		}
		return values
	}
	micro := func(us float64) string { return thousands(us) + " µs" }
	perSecond := func(m measured) float64 { return m.perSecond }
	for i := range contestants {
		rows = append(rows, []string{contestants[i].name,
			spread(of(i, perSecond), thousands), ratioOf(of(i, perSecond), of(1, perSecond)),
			spread(of(i, func(m measured) float64 { return m.p50 }), micro),
			spread(of(i, func(m measured) float64 { return m.p99 }), micro),
			decimals(median(of(i, func(m measured) float64 { return m.nginx }))) + " µs",
			decimals(median(of(i, func(m measured) float64 { return m.limiter }))) + " µs"})
	}
	table(out, rows...)
	return nil
}
