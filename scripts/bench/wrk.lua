-- For wrk: sends the requests of the file REQUESTS repeatedly, and prints the results as a line of JSON.
-- Each line of the file is a method, a path and a body, separated by tabs.

local requests = {}
local last = 0

function init()
  for line in io.lines(os.getenv("REQUESTS")) do
    local method, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
    requests[#requests + 1] = wrk.format(method, path, nil, body ~= "" and body or nil)
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"requests":%d,"perSecond":%f,"p50":%f,"p99":%f,"errorResponses":%d,"socketErrors":%d}',
    summary.requests, summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
