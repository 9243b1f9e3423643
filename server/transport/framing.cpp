#include "server/transport/framing.h"

#include <algorithm>
#include <charconv>

namespace engramd::server {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kLengthHeader = "content-length:";
// A header line is recognised by this prefix; JSON cannot start with it.
constexpr std::string_view kHeaderPrefix = "content-";

bool starts_with_ignoring_case(std::string_view text, std::string_view lower_prefix) {
  if (text.size() < lower_prefix.size()) return false;
  return std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(), [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + ('a' - 'A')) : b);
  });
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::int64_t parse_length(std::string_view header) {
  std::string_view digits = header.substr(kLengthHeader.size());
  while (!digits.empty() && (digits.front() == ' ' || digits.front() == '\t')) {
    digits.remove_prefix(1);
  }
  std::int64_t length = -1;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  const std::string_view rest(end, static_cast<std::size_t>(digits.data() + digits.size() - end));
  return status == std::errc() && length >= 0 && is_blank(rest) ? length : -1;
}

}  // namespace

MessageReader::MessageReader(std::int64_t message_bytes_max)
    : message_bytes_max_(message_bytes_max) {}

void MessageReader::push(std::string_view bytes, const OnMessage& on_message) {
  while (!bytes.empty()) {
    if (state_ == State::kBody) {
      take_body_bytes(bytes, on_message);
    } else {
      take_line_bytes(bytes, on_message);
    }
  }
}

void MessageReader::finish(const OnMessage& on_message) {
  if (state_ == State::kLine && !pending_.empty()) end_line(on_message);
  if (state_ == State::kBody) {  // cut short: what came is still answered, with a parse error
    on_message(std::move(pending_), Framing::kContentLength);
  }
  pending_.clear();
  state_ = State::kLine;
}

void MessageReader::take_line_bytes(std::string_view& bytes, const OnMessage& on_message) {
  const std::size_t newline = bytes.find('\n');
  const std::string_view part = bytes.substr(0, newline);
  const std::size_t room = static_cast<std::size_t>(message_bytes_max_) + 1 - pending_.size();
  pending_.append(part.substr(0, room));
  if (newline == std::string_view::npos) {
    bytes = {};
    return;
  }
  bytes.remove_prefix(newline + 1);
  if (state_ == State::kHeader) {
    end_header(on_message);
  } else {
    end_line(on_message);
  }
}

void MessageReader::end_line(const OnMessage& on_message) {
  if (at_start_ && pending_.starts_with(kByteOrderMark)) pending_.erase(0, kByteOrderMark.size());
  at_start_ = false;
  if (starts_with_ignoring_case(pending_, kHeaderPrefix)) {
    content_length_ = -1;
    state_ = State::kHeader;
    end_header(on_message);
    return;
  }
  if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
  if (!is_blank(pending_)) on_message(std::move(pending_), Framing::kLines);
  pending_.clear();
}

void MessageReader::end_header(const OnMessage& on_message) {
  if (starts_with_ignoring_case(pending_, kLengthHeader)) {
    content_length_ = parse_length(pending_);
    if (content_length_ < 0) {  // no way to find the body's end: answer, go back to lines
      on_message(std::move(pending_), Framing::kContentLength);
      state_ = State::kLine;
    }
  } else if (is_blank(pending_)) {
    state_ = content_length_ > 0 ? State::kBody : State::kLine;
    body_left_ = content_length_;
  }
  pending_.clear();
}

void MessageReader::take_body_bytes(std::string_view& bytes, const OnMessage& on_message) {
  const std::size_t size = std::min(bytes.size(), static_cast<std::size_t>(body_left_));
  const std::size_t room = static_cast<std::size_t>(message_bytes_max_) + 1 - pending_.size();
  pending_.append(bytes.substr(0, std::min(size, room)));
  bytes.remove_prefix(size);
  body_left_ -= static_cast<std::int64_t>(size);
  if (body_left_ > 0) return;
  on_message(std::move(pending_), Framing::kContentLength);
  pending_.clear();
  state_ = State::kLine;
}

std::string frame_message(std::string_view json, Framing framing) {
  if (framing == Framing::kLines) return std::string(json) + '\n';
  return "Content-Length: " + std::to_string(json.size()) + "\r\n\r\n" + std::string(json);
}

}  // namespace engramd::server
