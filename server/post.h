// Post: hands a function to the io thread, from any thread. What the engine's callbacks, the
// transports' threads and the loader use to come back. Never blocks, never runs the function
// itself.
#pragma once

#include <functional>

namespace engramd::server {

using Post = std::function<void(std::function<void()>)>;

}  // namespace engramd::server
