#include "config/option_rows.h"

namespace engramd::config {
namespace {

constexpr double kTokensMax = 1e8;
constexpr double kBillionParametersMax = 1e6;

std::vector<OptionRow> sampling_rows() {
  using O = Options;
  using S = SamplingDefaults;
  return {
      {.key = "sampling.temperature",
       .member = field(&O::sampling, &S::temperature),
       .maximum = 2,
       .help = "Default temperature; 0: greedy.",
       .json_keys = {"temperature"},
       .flag = "--temperature"},
      {.key = "sampling.top_p",
       .member = field(&O::sampling, &S::top_p),
       .minimum = 1e-6,
       .maximum = 1,
       .help = "Default probability mass that candidates are drawn from; 1: off.",
       .json_keys = {"top_p"},
       .flag = "--top-p"},
      {.key = "sampling.top_k",
       .member = field(&O::sampling, &S::top_k),
       .maximum = 1e9,
       .help = "Default number of candidate tokens; 0: off.",
       .flag = "--top-k"},
      {.key = "sampling.min_p",
       .member = field(&O::sampling, &S::min_p),
       .maximum = 1,
       .help = "Default smallest probability relative to the likeliest token; 0: off.",
       .flag = "--min-p"},
      {.key = "sampling.max_tokens",
       .member = field(&O::sampling, &S::max_tokens),
       .minimum = 1,
       .maximum = kTokensMax,
       .help = "Default number of tokens of an answer.",
       .flag = "--max-tokens"},
      {.key = "sampling.stream",
       .member = field(&O::sampling, &S::stream),
       .help = "Whether answers are sent piece by piece by default.",
       .json_keys = {"stream"},
       .flag = "--stream",
       .no_effect_yet = true},
  };
}

std::vector<OptionRow> api_rows() {
  using O = Options;
  using A = ApiOptions;
  const Names<AllowRemote> allow = {
      {"auto", AllowRemote::kAuto}, {"true", AllowRemote::kTrue}, {"false", AllowRemote::kFalse}};
  return {
      {.key = "api.base_url",
       .member = field(&O::api, &A::base_url),
       .syntax = Syntax::kUrl,
       .help = "Address of the remote, with or without /v1. Empty: no remote.",
       .json_keys = {"base_url"},
       .environment_alias = "TAOTOKEN_BASE_URL"},
      {.key = "api.api_key_env",
       .member = field(&O::api, &A::api_key_env),
       .syntax = Syntax::kVariableName,
       .help = "Name of the environment variable that holds the remote's key.",
       .json_keys = {"api_key_env"}},
      {.key = "api.timeout",
       .member = field(&O::api, &A::timeout_s),
       .minimum = 1,
       .maximum = 86400,
       .help = "Total time of one remote request, in seconds.",
       .json_keys = {"timeout_seconds"}},
      {.key = "api.max_retries",
       .member = field(&O::api, &A::max_retries),
       .maximum = 10,
       .help = "Further attempts after a failure that may be retried.",
       .json_keys = {"max_retries"}},
      {.key = "api.default_model",
       .member = field(&O::api, &A::default_model),
       .help = "Remote model that answers when the local one does not.",
       .json_keys = {"default_model"}},
      {.key = "api.fallback_model",
       .member = field(&O::api, &A::fallback_model),
       .help = "Remote model that is tried after the default one.",
       .json_keys = {"fallback_model"}},
      {.key = "api.allow_remote",
       .member = choice(&O::api, &A::allow_remote, allow),
       .help = "Whether prompts may leave this machine; auto: when a base URL and a key are set."},
      {.key = "api.proxy_env",
       .member = field(&O::api, &A::proxy_env),
       .syntax = Syntax::kVariableName,
       .help =
           "Name of the environment variable that holds the remote's proxy, "
           "http://name:password@host:port. Empty: https_proxy, http_proxy and no_proxy count."},
      {.key = "api.tokens_per_day_max",
       .member = field(&O::api, &A::tokens_per_day_max),
       .maximum = 1000000000000,
       .help = "Tokens that remotes may cost on a UTC day, over all engramds of a user; 0: no "
               "limit."},
  };
}

std::vector<OptionRow> limit_rows() {
  using O = Options;
  using L = LimitOptions;
  return {
      {.key = "limits.message_bytes_max",
       .member = field(&O::limits, &L::message_bytes_max),
       .minimum = 1024,
       .maximum = 1073741824,
       .help = "Largest MCP message, in bytes."},
      {.key = "limits.json_depth_max",
       .member = field(&O::limits, &L::json_depth_max),
       .minimum = 8,
       .maximum = 1024,
       .help = "Deepest nesting of a JSON message."},
      {.key = "limits.in_flight_max",
       .member = field(&O::limits, &L::in_flight_max),
       .minimum = 1,
       .maximum = 65536,
       .help = "Calls of one client that run at the same time."},
      {.key = "limits.queue_length_max",
       .member = field(&O::limits, &L::queue_length_max),
       .minimum = 1,
       .maximum = 65536,
       .help = "Requests that may wait for the engine."},
      {.key = "limits.prompt_tokens_max",
       .member = field(&O::limits, &L::prompt_tokens_max),
       .minimum = 1,
       .maximum = kTokensMax,
       .help = "Longest prompt, in tokens; the model's own limit holds too."},
      {.key = "limits.inspect_positions_max",
       .member = field(&O::limits, &L::inspect_positions_max),
       .minimum = 1,
       .maximum = kTokensMax,
       .help = "Longest text of engram_lookup and gate_inspect, in tokens."},
      {.key = "limits.http_header_bytes_max",
       .member = field(&O::limits, &L::http_header_bytes_max),
       .minimum = 1024,
       .maximum = 1048576,
       .help = "Longest request line with headers of an HTTP request, in bytes."},
      {.key = "limits.http_body_bytes_max",
       .member = field(&O::limits, &L::http_body_bytes_max),
       .minimum = 1024,
       .maximum = 1073741824,
       .help = "Longest body of an HTTP request, in bytes."},
      {.key = "limits.http_body_bytes_per_second_min",
       .member = field(&O::limits, &L::http_body_bytes_per_second_min),
       .minimum = 1,
       .maximum = 1e9,
       .help = "Slowest that an HTTP body may arrive, over the time of server.header_timeout_ms."},
      {.key = "limits.connections_max",
       .member = field(&O::limits, &L::connections_max),
       .minimum = 1,
       .maximum = 1e6,
       .help = "Open connections of the TCP port; further ones are answered with 503."},
      {.key = "limits.requests_per_minute",
       .member = field(&O::limits, &L::requests_per_minute),
       .minimum = 1,
       .maximum = 1e9,
       .help = "HTTP requests that one address may send in a minute; further ones get a 429."},
      {.key = "limits.send_queue_bytes_max",
       .member = field(&O::limits, &L::send_queue_bytes_max),
       .minimum = 1024,
       .maximum = 1073741824,
       .help = "What may wait for a client that reads slowly, in bytes; more ends its connection."},
      {.key = "limits.http_sessions_max",
       .member = field(&O::limits, &L::http_sessions_max),
       .minimum = 1,
       .maximum = 1e6,
       .help = "MCP sessions over HTTP; beyond it the one that was quiet longest ends."},
  };
}

std::vector<OptionRow> server_rows() {
  using O = Options;
  using S = ServerOptions;
  using L = LogOptions;
  const Names<LogLevel> levels = {{"trace", LogLevel::kTrace}, {"debug", LogLevel::kDebug},
                                  {"info", LogLevel::kInfo},   {"warn", LogLevel::kWarn},
                                  {"error", LogLevel::kError}, {"off", LogLevel::kOff}};
  return {
      {.key = "server.host",
       .member = field(&O::server, &S::host),
       .syntax = Syntax::kHost,
       .help = "Address that the TCP port listens on; 0.0.0.0: every IPv4 address of the machine.",
       .flag = "--host"},
      {.key = "server.port",
       .member = field(&O::server, &S::port),
       .maximum = 65535,
       .help = "TCP port of HTTP and WebSocket; 0: any free one.",
       .flag = "--port"},
      {.key = "server.auth",
       .member = field(&O::server, &S::auth),
       .help =
           "Whether clients of the TCP port need the bearer token; off only with a loopback host.",
       .flag = "--auth"},
      {.key = "server.allowed_hosts",
       .member = field(&O::server, &S::allowed_hosts),
       .syntax = Syntax::kHost,
       .help = "Host names that clients may use besides localhost and server.host; without a port: "
               "on any."},
      {.key = "server.allowed_origins",
       .member = field(&O::server, &S::allowed_origins),
       .syntax = Syntax::kOrigin,
       .help = "Origins of web pages, besides loopback ones, whose requests are taken; these get "
               "CORS headers."},
      {.key = "server.aliases",
       .member = field(&O::server, &S::aliases),
       .syntax = Syntax::kAlias,
       .help =
           "Names by which API clients may call a local model, each \"name=local name\"; also as "
           "a table [aliases] with name = \"local name\".",
       .toml_table = "aliases"},
      {.key = "server.header_timeout_ms",
       .member = field(&O::server, &S::header_timeout_ms),
       .minimum = 10,
       .maximum = 600000,
       .help = "How long the headers of an HTTP request may take to arrive, in milliseconds."},
      {.key = "server.idle_timeout_ms",
       .member = field(&O::server, &S::idle_timeout_ms),
       .minimum = 10,
       .maximum = 86400000,
       .help = "How long an HTTP connection may wait for its next request, in milliseconds."},
      {.key = "server.write_timeout_ms",
       .member = field(&O::server, &S::write_timeout_ms),
       .minimum = 10,
       .maximum = 600000,
       .help = "How long a client may take nothing of what is sent to it, in milliseconds."},
      {.key = "server.websocket_ping_ms",
       .member = field(&O::server, &S::websocket_ping_ms),
       .minimum = 10,
       .maximum = 600000,
       .help =
           "Time between two pings of a WebSocket, in milliseconds; two unanswered ones end it."},
      {.key = "server.session_timeout_ms",
       .member = field(&O::server, &S::session_timeout_ms),
       .minimum = 1000,
       .maximum = 86400000,
       .help = "How long an MCP session over HTTP lives without use, in milliseconds."},
      {.key = "server.socket",
       .member = field(&O::server, &S::socket),
       .syntax = Syntax::kPath,
       .help = "Unix socket of the daemon. Empty: engramd.sock in ~/.local/state/engramd.",
       .flag = "--socket"},
      {.key = "server.idle_exit_s",
       .member = field(&O::server, &S::idle_exit_s),
       .maximum = 31536000,
       .help = "The daemon ends when it had no client for so many seconds; 0: never.",
       .flag = "--idle-exit"},
      {.key = "server.shutdown_timeout_ms",
       .member = field(&O::server, &S::shutdown_timeout_ms),
       .maximum = 600000,
       .help =
           "How long running calls may take to end when the daemon is stopped, in milliseconds."},
      {.key = "server.progress_interval_ms",
       .member = field(&O::server, &S::progress_interval_ms),
       .minimum = 1,
       .maximum = 60000,
       .help = "Shortest time between two progress messages of a call, in milliseconds."},
      {.key = "log.level",
       .member = choice(&O::log, &L::level, levels),
       .help = "What is written to stderr; prompts only at debug and below.",
       .flag = "--log-level"},
      {.key = "log.trace_file",
       .member = field(&O::log, &L::trace_file),
       .syntax = Syntax::kPath,
       .help = "Readable transcript of all messages, prompts included. Empty: none.",
       .flag = "--trace",
       .no_effect_yet = true},
  };
}

std::vector<OptionRow> experiment_rows() {
  using O = Options;
  using E = ExperimentOptions;
  return {
      {.key = "experiment.baseline_model",
       .member = field(&O::experiment, &E::baseline_model),
       .help = "Model that `engramd experiment` compares with.",
       .json_keys = {"experiment.baseline_model"},
       .no_effect_yet = true},
      {.key = "experiment.engram_model",
       .member = field(&O::experiment, &E::engram_model),
       .help = "Model that `engramd experiment` studies.",
       .json_keys = {"experiment.engram_model"},
       .no_effect_yet = true},
      {.key = "experiment.temperature",
       .member = field(&O::experiment, &E::temperature),
       .maximum = 2,
       .help = "Temperature of both arms of an experiment.",
       .json_keys = {"experiment.temperature"},
       .no_effect_yet = true},
      {.key = "experiment.max_tokens",
       .member = field(&O::experiment, &E::max_tokens),
       .minimum = 1,
       .maximum = kTokensMax,
       .help = "Tokens of each answer in an experiment.",
       .json_keys = {"experiment.max_tokens"},
       .no_effect_yet = true},
      {.key = "experiment.repeat",
       .member = field(&O::experiment, &E::repeat),
       .minimum = 1,
       .maximum = 100000,
       .help = "How often an experiment asks each prompt.",
       .json_keys = {"experiment.repeat"},
       .no_effect_yet = true},
      {.key = "experiment.record_latency",
       .member = field(&O::experiment, &E::record_latency),
       .help = "Whether an experiment records times.",
       .json_keys = {"metrics.record_latency"},
       .no_effect_yet = true},
      {.key = "experiment.record_token_usage",
       .member = field(&O::experiment, &E::record_token_usage),
       .help = "Whether an experiment records token counts.",
       .json_keys = {"metrics.record_token_usage"},
       .no_effect_yet = true},
      {.key = "experiment.record_choice_count",
       .member = field(&O::experiment, &E::record_choice_count),
       .help = "Whether an experiment records the number of choices of an answer.",
       .json_keys = {"metrics.record_choice_count"},
       .no_effect_yet = true},
  };
}

std::vector<OptionRow> planner_rows() {
  using O = Options;
  using P = PlannerOptions;
  return {
      {.key = "sparse_allocation.total_params_b",
       .member = field(&O::planner, &P::total_params_b),
       .maximum = kBillionParametersMax,
       .help = "Planner: all parameters, in 10^9; 0: not stated."},
      {.key = "sparse_allocation.activated_params_b",
       .member = field(&O::planner, &P::activated_params_b),
       .maximum = kBillionParametersMax,
       .help = "Planner: parameters that a token activates, in 10^9; 0: not stated."},
      {.key = "sparse_allocation.sparse_params_b",
       .member = field(&O::planner, &P::sparse_params_b),
       .maximum = kBillionParametersMax,
       .help = "Planner: parameters that a token does not activate, in 10^9; 0: not stated."},
      {.key = "sparse_allocation.engram_params_b",
       .member = field(&O::planner, &P::engram_params_b),
       .maximum = kBillionParametersMax,
       .help = "Planner: parameters of the Engram tables, in 10^9; 0: not stated."},
      {.key = "sparse_allocation.rho",
       .member = field(&O::planner, &P::rho),
       .maximum = 1,
       .help = "Planner: share of the inactive budget that routed experts keep; 0: not stated."},
      {.key = "scaling.flops_budget",
       .member = field(&O::planner, &P::flops_budget),
       .maximum = 1e40,
       .help = "Planner: training FLOPs; 0: not stated."},
      {.key = "scaling.optimal_rho_range",
       .member = field(&O::planner, &P::optimal_rho_range),
       .maximum = 1,
       .help = "Planner: range of rho that is expected to be best, low then high."},
  };
}

}  // namespace

std::vector<OptionRow> service_rows() {
  std::vector<OptionRow> rows;
  for (auto part : {sampling_rows(), api_rows(), limit_rows(), server_rows(), experiment_rows(),
                    planner_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace engramd::config
