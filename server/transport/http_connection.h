// HttpConnection: one client's HTTP/1.1 connection, from accept to close. Reads requests, refuses
// what may not come in, hands the others to the handler one at a time and sends their answers in
// order; becomes a WebSocketConnection when asked to. Notices a client that is too slow, in either
// direction, and one that goes while its answer is being made. On the io thread; keeps itself alive
// by what it waits for. Not here: the grammar (request_reader), the form of an answer
// (http_answer), who may come in (access).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "server/transport/connection_context.h"
#include "server/transport/deadline.h"
#include "server/transport/http_answer.h"
#include "server/transport/request_reader.h"

namespace engramd::server {

class HttpConnection : public Connection,
                       public AnswerSink,
                       public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<ConnectionContext> context, boost::asio::ip::tcp::socket socket,
                 std::string address);
  ~HttpConnection() override;

  void start();
  void drain() override;
  void abort() override;

 private:
  // What the connection waits for, which says how long it may.
  enum class Waiting { kFirstByte, kNextRequest, kHead, kBody, kAnswer, kClose };

  // Reading.
  void wait_readable();
  void read_available();
  void on_input_ended();
  void advance();
  void await_more();
  void wait_for(Waiting what);
  void on_too_slow();
  void check_body_progress();

  // Requests.
  void take_head();
  std::optional<HttpResponse> refusal_of_head();
  void upgrade();
  void dispatch();
  void answer_with(HttpResponse response);

  // AnswerSink.
  std::string_view date() override { return context_->date(); }
  bool may_keep_alive() const override;
  std::int64_t queue_bytes_max() const override { return context_->limits.send_queue_bytes_max; }
  std::int64_t queued_bytes() const override { return queued_bytes_; }
  void send(std::string bytes) override;
  void end_answer(bool keep_alive) override;
  void give_up() override { end(); }

  void write_some();
  void on_written(std::size_t n_bytes);
  void on_queue_empty();
  void end();

  const std::shared_ptr<ConnectionContext> context_;
  boost::asio::ip::tcp::socket socket_;
  const std::string address_;
  RequestReader reader_;
  Waiting waiting_ = Waiting::kFirstByte;
  Deadline read_deadline_;
  Deadline write_deadline_;
  std::size_t body_bytes_seen_ = 0;  // at the last look at the body's progress
  HttpAnswer* answer_ = nullptr;     // in hand; owned by the handler
  std::deque<std::string> queue_;
  std::size_t front_written_ = 0;  // bytes of queue_.front() that are out
  std::int64_t queued_bytes_ = 0;
  bool reading_ = false;  // an asynchronous operation is under way
  bool writing_ = false;
  bool refusing_ = false;     // the answer in hand leaves the rest of the input unread
  bool close_after_ = false;  // what is queued
  bool input_ended_ = false;
  bool ended_ = false;
};

}  // namespace engramd::server
