// Text that leaves the server for a person or a model: sanitising, cutting, quoting, and the
// nearest known name for error messages. Pure functions, usable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace engramd::mcp {

// Valid UTF-8 without what can drive a terminal or hide from a reader: ANSI escape sequences,
// control characters other than \n and \t, bidirectional overrides, zero-width spaces, tag
// characters. Zero-width joiners stay: scripts and emoji need them. Bad bytes become U+FFFD.
std::string sanitise_text(std::string_view text);

// The longest prefix of at most bytes_max bytes that ends on a code point.
std::string_view cut_at_code_point(std::string_view text, std::size_t bytes_max);

// A received value for an error message: sanitised, cut to 60 bytes, in double quotes.
std::string quote(std::string_view text);

// ` (did you mean "x"?)` for the known name closest to `name`, or nothing when none is close.
std::string suggest(std::string_view name, const std::vector<std::string>& known);

}  // namespace engramd::mcp
