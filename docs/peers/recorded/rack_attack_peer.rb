#!/usr/bin/ruby
# Rack::Attack with a store on Redis, for record.py.
require 'json'
require 'rack'
require 'rack/mock'
require 'active_support'
require 'active_support/cache'
require 'active_support/cache/redis_cache_store'
require 'active_support/notifications'
require 'rack/attack'
require 'redis'

url = "redis://127.0.0.1:#{ARGV.last}/0"
STORES = {
  'cache' => ActiveSupport::Cache::RedisCacheStore.new(url: url),
  'redis' => Redis.new(url: url),
}.freeze
# Kind, store, limit, period, and how long a ban is.
CASES = [
  ['throttle', 'cache', 5, 2], ['throttle', 'redis', 3, 4], ['throttle', 'cache', 20, 60], ['throttle', 'redis', 1000, 3600],
  ['fail2ban', 'cache', 3, 60, 3], ['allow2ban', 'redis', 4, 5, 2], ['allow2ban', 'cache', 2, 60, 4], ['fail2ban', 'redis', 2, 10, 2],
  ['throttle', 'redis', 1, 1]
].freeze

$stdout.sync = true
puts JSON.generate(CASES.map { |kind, _, limit, period, ban|
  { name: kind, limit: "#{limit}/#{period}s", period: [ban || period, 6].min }
})
while (line = $stdin.gets)
  asked = JSON.parse(line)
  kind, store, limit, period, ban = CASES[asked['case']]
  Rack::Attack.cache.store = STORES[store]
  id = asked['id']
  options = { maxretry: limit, findtime: period, bantime: ban }
  filter = { 'fail2ban' => Rack::Attack::Fail2Ban, 'allow2ban' => Rack::Attack::Allow2Ban }[kind]
  if asked['op'] == 'peek'
    puts JSON.generate(filter && { banned: filter.banned?(id) })
  elsif filter
    banned = filter.banned?(id)
    blocked = filter.filter(id, options) { true }
    puts JSON.generate({ allowed: !banned, blocked: blocked, banned: filter.banned?(id) })
  else
    Rack::Attack.clear_configuration
    Rack::Attack.throttled_response_retry_after_header = true
    Rack::Attack.throttle('req/ip', limit: limit, period: period, &:ip)
    app = Rack::Attack.new(->(_) { [200, {}, []] })
    env = Rack::MockRequest.env_for('/', 'REMOTE_ADDR' => id)
    status, headers, = app.call(env)
    data = env['rack.attack.throttle_data']['req/ip']
    retry_after = headers['retry-after'] || headers['Retry-After']
    puts JSON.generate({ allowed: status == 200, used: data[:count] - 1, retry: retry_after && retry_after.to_f })
  end
end
