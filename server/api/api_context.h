// ApiContext: what the HTTP APIs work with. Everything lives on the io thread; the services outlive
// all handlers.
#pragma once

#include <utility>

#include "server/api/model_names.h"
#include "server/later.h"
#include "server/tools/services.h"

namespace engramd::server {

struct ApiContext {
  ApiContext(const Services& given, Later given_later)
      : services(given),
        later(std::move(given_later)),
        aliases(to_aliases(given.options.server.aliases)) {}

  const Services& services;
  Later later;
  ModelAliases aliases;
};

}  // namespace engramd::server
