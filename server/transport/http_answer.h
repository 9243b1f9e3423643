// HttpAnswer: the HttpExchange of one request on one connection. Turns what a handler says into the
// bytes of the answer: head, chunks, or neither for HEAD; a 500 when the handler says nothing.
// On the io thread. Not here: the socket and its queue (http_connection, which is the sink).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "server/transport/http_exchange.h"
#include "server/transport/request_reader.h"

namespace engramd::server {

class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual std::string_view date() = 0;               // for the Date header
  virtual bool may_keep_alive() const = 0;           // as far as the connection is concerned
  virtual std::int64_t queue_bytes_max() const = 0;  // see HttpExchange::queued_bytes
  virtual std::int64_t queued_bytes() const = 0;
  virtual void send(std::string bytes) = 0;
  virtual void end_answer(bool keep_alive) = 0;  // all was sent
  virtual void give_up() = 0;                    // the connection ends in the middle of the answer
};

class HttpAnswer : public HttpExchange, public std::enable_shared_from_this<HttpAnswer> {
 public:
  // `headers` go into every answer to this request.
  HttpAnswer(boost::asio::io_context& io, std::shared_ptr<AnswerSink> sink, RequestHead head,
             HttpHeaders headers);
  ~HttpAnswer() override;

  const HttpRequest& request() const override { return head_.request; }
  void respond(HttpResponse response) override;
  void start(HttpResponse head) override;
  void write(std::string piece) override;
  void finish() override;
  std::int64_t queued_bytes() const override;
  void on_gone(std::function<void()> function) override;

  // The connection's side. The client has gone: nothing is sent any more, and the handler hears it.
  void gone();
  // The same without a word to the handler: the server is taken down.
  void let_go() { sink_.reset(); }

 private:
  enum class State { kOpen, kStreaming, kFinished };
  std::string head_text(const HttpResponse& response, std::string_view framing) const;
  void end();
  void tell_gone();

  boost::asio::io_context& io_;
  std::shared_ptr<AnswerSink> sink_;  // none: answered, or the client has gone
  RequestHead head_;
  const HttpHeaders headers_;
  State state_ = State::kOpen;
  bool keep_alive_ = false;  // decided with the head
  bool chunked_ = false;
  bool gone_ = false;
  std::function<void()> on_gone_;
};

}  // namespace engramd::server
