#include "querier/testing/simulation/network.hh"

#include "core/base/error.hh"
#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/testing/simulation/server.hh"
#include "querier/testing/simulation/sockets.hh"
#include "querier/testing/simulation/timeline.hh"

#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr std::uint16_t kTlsPort = 853;
constexpr unsigned kMostLooks = 100'000;
constexpr Nanoseconds kLongest = Nanoseconds{24} * 3600 * kSecond;

std::uint32_t events_of(const Flow& flow) {
    if (flow.broken) {
        return EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    }
    std::uint32_t events = flow.connected && flow.unread < kWindow ? EPOLLOUT : 0U;
    events |= flow.inbox.empty() && !flow.fin ? 0U : EPOLLIN;
    return events | (flow.fin ? EPOLLRDHUP : 0U);
}

} // namespace

/// Nothing happens any more once the querier and this are gone.
void SimulatedNetwork::in(Nanoseconds delay, std::function<void()> action) {
    timeline_.in(delay, [alive = std::weak_ptr(alive_), action = std::move(action)] {
        if (!alive.expired()) {
            action();
        }
    });
}

// Events

std::unique_ptr<Carrier> SimulatedNetwork::udp_carrier(const CarrierWish& wish,
                                                       const CarrierParts& parts) {
    return simulated_udp(*this, wish, parts);
}

void SimulatedNetwork::raise(const FlowPtr& flow) {
    if (flow->watched && !flow->closed && std::ranges::find(raised_, flow) == raised_.end()) {
        raised_.push_back(flow);
    }
}

bool SimulatedNetwork::ready() const {
    return !raised_.empty() || !udp_ready_.empty() || (parent_ready_ && parent_ready_());
}

/// A querier that never sleeps would hold up time for ever.
void SimulatedNetwork::guard_against_spinning() {
    const Nanoseconds now = timeline_.now();
    looks_ = now == looked_at_ ? looks_ + 1 : 0;
    looked_at_ = now;
    if (looks_ > kMostLooks || now - kStart > kLongest) {
        throw Error("the scenario does not come to an end");
    }
}

std::span<const epoll_event> SimulatedNetwork::wait(Nanoseconds now, Nanoseconds wake) {
    guard_against_spinning();
    timeline_.run(clock_.back(std::max(now, wake)), [this] { return ready(); });
    events_.clear();
    if (parent_ready_ && parent_ready_()) {
        events_.push_back(
            {.events = EPOLLIN, .data = {.u64 = EventTag{.kind = EventKind::kControl}.pack()}});
    }
    for (const std::uint8_t number : std::exchange(udp_ready_, {})) {
        const EventTag tag{.kind = EventKind::kCarrier, .carrier = number};
        events_.push_back({.events = EPOLLIN, .data = {.u64 = tag.pack()}});
    }
    for (const FlowPtr& flow : std::exchange(raised_, {})) {
        if (!flow->closed) {
            events_.push_back({.events = events_of(*flow), .data = {.u64 = flow->tag.pack()}});
        }
    }
    timer_fired_ = events_.empty() && wake > now;
    return events_;
}

void SimulatedNetwork::sleep_until(Nanoseconds time) {
    timeline_.run(clock_.back(time), [] { return false; });
}

void SimulatedNetwork::stall() { sleep_until(clock_.now() + std::exchange(stall_, 0)); }

// UDP

void SimulatedNetwork::send_datagram(const std::string& source, const Endpoint& server,
                                     std::vector<std::uint8_t> bytes, const OnReply& reply) {
    if (cut_) {
        return timeline_.note("lost: udp {} > {}", source, describe(bytes));
    }
    const auto back = [this, reply](const std::vector<std::uint8_t>& answer) {
        if (!cut_) {
            in(one_way_, [reply, answer] { reply(answer); });
        }
    };
    in(one_way_, [=, this] {
        const std::string address = server.address.text();
        timeline_.note("udp {} > {}: {}", source, address, describe(bytes));
        const Rule rule = rules_.take(question_name(bytes), Transport::kUdp, address);
        if (stopped_ || rule.action == Action::kRefuse) {
            timeline_.note("icmp {} < {}: port unreachable", source, address);
            return back({});
        }
        const auto answer = answer_to(bytes, rule.action);
        if (answer.empty()) {
            return;
        }
        in(rule.after, [=, this] {
            for (int n = rule.action == Action::kTwice ? 0 : 1; n < 2; ++n) {
                timeline_.note("udp {} < {}: {}", source, address, describe(answer));
                back(answer);
            }
        });
    });
}

// TCP: the client's side

OpenedSocket SimulatedNetwork::connect(const Endpoint& server, const IpAddress& source,
                                       bool /*kernel_stamps*/) {
    auto flow = std::make_shared<Flow>();
    flow->number = static_cast<unsigned>(flows_.size()) + 1;
    flow->source = source.family != 0 ? source.text() : "host";
    flow->server = server;
    flows_.push_back(flow);
    const Nanoseconds now = clock_.now();
    auto arrive = [this, flow] { in(one_way_, [this, flow] { begin(flow); }); };
    if (cut_) {
        flow->unanswered = now;
        held_.emplace_back(arrive);
    } else {
        arrive();
    }
    return {
        .socket = simulated_tcp(*this, flow), .call = {.before = now, .after = now}, .error = 0};
}

void SimulatedNetwork::deliver(const FlowPtr& flow, std::vector<std::uint8_t> bytes) {
    auto arrive = [this, flow, bytes = std::move(bytes)] {
        in(one_way_, [this, flow, bytes] {
            flow->heard.insert(flow->heard.end(), bytes.begin(), bytes.end());
            serve(flow);
        });
    };
    if (cut_) {
        flow->unanswered = flow->unanswered == 0 ? clock_.now() : flow->unanswered;
        held_.emplace_back(arrive);
    } else {
        arrive();
    }
}

void SimulatedNetwork::client_closed(const FlowPtr& flow) {
    flow->closed = true;
    if (cut_ || flow->broken) {
        return;
    }
    in(one_way_, [this, flow] {
        if (!flow->server_done || flow->fin) {
            timeline_.note("tcp {} > FIN", flow->number);
        }
        flow->server_done = true;
    });
}

// TCP: the server's side

bool SimulatedNetwork::is_tls(const Flow& flow) const { return flow.server.port == kTlsPort; }

void SimulatedNetwork::begin(const FlowPtr& flow) {
    timeline_.note("tcp {} > SYN from {}", flow->number, flow->source);
    const Transport transport = is_tls(*flow) ? Transport::kTls : Transport::kTcp;
    const Rule rule = rules_.take("SYN", transport, flow->server.address.text());
    if (rule.action == Action::kIgnore) {
        return;
    }
    if (stopped_ || rule.action == Action::kRefuse) {
        return reset(flow, ECONNREFUSED);
    }
    if (is_tls(*flow)) {
        flow->tls = tls_.accept();
    }
    flow->reads_not = rule.action == Action::kReadNot;
    in(rule.after + one_way_, [this, flow] {
        flow->connected = true;
        flow->unanswered = 0;
        raise(flow);
    });
}

void SimulatedNetwork::serve(const FlowPtr& flow) {
    if (flow->server_done || flow->reads_not) {
        return;
    }
    if (stopped_) {
        return reset(flow, ECONNRESET);
    }
    std::vector<std::uint8_t> plain;
    if (flow->tls) {
        auto out = flow->tls->feed(std::exchange(flow->heard, {}));
        if (!out.empty()) {
            send_bytes(flow, std::move(out));
        }
        if (SSL_is_init_finished(flow->tls->ssl()) != 0) {
            for (const auto& message : std::exchange(flow->unsaid, {})) {
                send_bytes(flow, flow->tls->say(message));
            }
        }
        const auto& all = flow->tls->heard();
        plain.assign(all.begin() + static_cast<ssize_t>(flow->tls_taken), all.end());
    } else {
        plain = flow->heard;
    }
    size_t used = 0;
    while (plain.size() >= used + 2) {
        const size_t size = (size_t{plain[used]} << 8U) | plain[used + 1];
        if (plain.size() < used + 2 + size) {
            break;
        }
        const auto begin = plain.begin() + static_cast<ssize_t>(used + 2);
        serve_message(flow, {begin, begin + static_cast<ssize_t>(size)});
        used += 2 + size;
    }
    if (flow->tls) {
        flow->tls_taken += used;
    } else {
        flow->heard.erase(flow->heard.begin(), flow->heard.begin() + static_cast<ssize_t>(used));
    }
}

void SimulatedNetwork::serve_message(const FlowPtr& flow, std::vector<std::uint8_t> message) {
    if (flow->server_done) {
        return;
    }
    const Transport transport = flow->tls ? Transport::kTls : Transport::kTcp;
    timeline_.note("{} {} > {}", transport_name(transport), flow->number, describe(message));
    const Rule rule = rules_.take(question_name(message), transport, flow->server.address.text());
    in(rule.after, [this, flow, message, action = rule.action] {
        if (!flow->server_done) {
            say(flow, answer_to(message, action), action);
        }
    });
}

void SimulatedNetwork::say(const FlowPtr& flow, std::vector<std::uint8_t> message, Action action) {
    if (action == Action::kReset) {
        return reset(flow, ECONNRESET);
    }
    if (action == Action::kBadLength) {
        timeline_.note("tcp {} < a length of 11", flow->number);
        return send_bytes(flow, {0, 11, 1, 2, 3});
    }
    if (!message.empty()) {
        timeline_.note("{} {} < {}", flow->tls ? "tls" : "tcp", flow->number, describe(message));
        const auto size = static_cast<std::uint16_t>(message.size());
        message.insert(message.begin(),
                       {static_cast<std::uint8_t>(size >> 8U), static_cast<std::uint8_t>(size)});
        if (flow->tls && SSL_is_init_finished(flow->tls->ssl()) == 0) {
            flow->unsaid.push_back(std::move(message)); // it answers when hands are shaken
        } else {
            send_bytes(flow, flow->tls ? flow->tls->say(message) : message);
        }
    }
    if (action == Action::kClose || action == Action::kHangUp) {
        finish(flow);
    }
}

void SimulatedNetwork::send_bytes(const FlowPtr& flow, std::vector<std::uint8_t> bytes) {
    auto arrive = [this, flow, bytes = std::move(bytes)] {
        in(one_way_, [this, flow, bytes] {
            flow->inbox.insert(flow->inbox.end(), bytes.begin(), bytes.end());
            raise(flow);
        });
    };
    if (cut_) {
        held_.emplace_back(arrive);
    } else {
        arrive();
    }
}

void SimulatedNetwork::finish(const FlowPtr& flow) {
    timeline_.note("tcp {} < FIN", flow->number);
    flow->server_done = true;
    in(one_way_, [this, flow] {
        flow->fin = true;
        raise(flow);
    });
}

void SimulatedNetwork::reset(const FlowPtr& flow, int error) {
    timeline_.note("tcp {} < RST", flow->number);
    flow->server_done = true;
    in(one_way_, [this, flow, error] {
        flow->broken = true;
        flow->error = error;
        flow->inbox.clear();
        raise(flow);
    });
}

// What a scenario sets

void SimulatedNetwork::end_flow(unsigned number, Action how) {
    if (number == 0 || number > flows_.size()) {
        throw Error("the scenario ends a connection that was never opened");
    }
    const FlowPtr& flow = flows_[number - 1];
    if (!flow->server_done) {
        how == Action::kReset ? reset(flow, ECONNRESET) : finish(flow);
    }
}

void SimulatedNetwork::stop_server() {
    stopped_ = true;
    for (const FlowPtr& flow : flows_) {
        if (flow->connected && !flow->server_done) {
            reset(flow, ECONNRESET);
        }
    }
}

void SimulatedNetwork::restore_link() {
    cut_ = false;
    for (const FlowPtr& flow : flows_) {
        flow->unanswered = 0;
    }
    for (const auto& segment : std::exchange(held_, {})) {
        segment();
    }
}

} // namespace reprise::querier::testing
