#include "mutator/synth.hh"

#include "core/address.hh"
#include "core/clock.hh"
#include "mutator/clients.hh"
#include "mutator/packet.hh"
#include "mutator/pcap_writer.hh"
#include "mutator/query_names.hh"
#include "mutator/random.hh"
#include "mutator/synth_options.hh"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

/// A connection without a query for so long is closed, whatever it still had to send.
constexpr Nanoseconds kIdleLimit = 5 * kSecond;
constexpr std::uint64_t kFirstPort = 1024;

std::vector<double> weights_of(const Mix& mix) {
    std::vector<double> weights;
    weights.reserve(mix.size());
    for (const WeightedNumber& item : mix) {
        weights.push_back(item.weight);
    }
    return weights;
}

/// Number of trials up to the first success: at least 1, `mean` in the mean.
std::uint64_t draw_geometric(double mean, Random& random) {
    std::uint64_t count = 1;
    while (random.chance(1 - 1 / mean)) {
        ++count;
    }
    return count;
}

} // namespace

Synthesizer::Synthesizer(const SynthPlan& plan, std::vector<std::string> tlds, PcapWriter& writer)
    : plan_(plan), random_(plan.options.seed), clients_(plan), names_(std::move(tlds)),
      types_(weights_of(plan.types)), writer_(writer),
      start_(static_cast<Nanoseconds>(std::floor(plan.options.start_s)) * kSecond +
             std::llround((plan.options.start_s - std::floor(plan.options.start_s)) * 1e9)) {}

// Evenly spaced arrivals are computed from their number, so that no rounding adds up.
double Synthesizer::next_arrival() {
    const double gap = 1e9 / plan_.options.rate_qps;
    if (plan_.options.arrival == Arrival::kFixed) {
        return static_cast<double>(counts_.queries) * 1e9 / plan_.options.rate_qps;
    }
    return counts_.queries == 0 ? 0 : offset_ + random_.exponential(gap);
}

bool Synthesizer::step() {
    if (counts_.queries >= plan_.most_queries) {
        return false;
    }
    offset_ = next_arrival();
    if (offset_ >= plan_.duration_ns) {
        return false;
    }
    const Nanoseconds time = start_ + std::llround(offset_);
    close_idle(time);
    write_until(time);
    if (plan_.options.tcp_share > 0 && random_.chance(plan_.options.tcp_share)) {
        send_tcp(time);
    } else {
        send_udp(time);
    }
    ++counts_.queries;
    counts_.length = time - start_;
    return true;
}

void Synthesizer::finish() {
    if (flow_) {
        flow_->close(flow_->last_sent(), waiting_);
        flow_.reset();
    }
    while (!waiting_.empty()) {
        write_until(waiting_.next_time());
    }
}

double Synthesizer::progress() const {
    const double by_count =
        static_cast<double>(counts_.queries) / static_cast<double>(plan_.most_queries);
    return std::max(by_count, offset_ / plan_.duration_ns);
}

void Synthesizer::make_message(const ClientHabit& habit) {
    QueryShape shape{
        .edns = habit.edns, .dnssec_ok = habit.dnssec_ok, .edns_size = habit.edns_size};
    shape.id = static_cast<std::uint16_t>(random_.bits());
    shape.type = plan_.types[types_.draw(random_)].value;
    shape.recursion_desired = random_.chance(plan_.options.rd_share);
    if (random_.chance(plan_.options.junk_share)) {
        names_.make_junk(shape.type, random_, name_);
        ++counts_.junk_queries;
    } else {
        names_.make(shape.type, random_, name_);
    }
    counts_.ipv6_queries += habit.ipv6 ? 1U : 0U;
    build_query(message_, shape, name_);
}

void Synthesizer::send_udp(Nanoseconds time) {
    const std::uint32_t client = clients_.draw(random_);
    make_message(clients_.habit(client));
    build_udp(packet_, client_endpoint(client), server_for(client), message_);
    writer_.write(time, packet_);
}

void Synthesizer::send_tcp(Nanoseconds time) {
    TcpFlow& flow = flow_ ? *flow_ : open_connection(time);
    make_message(clients_.habit(flow_client_));
    flow.send(time, message_, waiting_);
    ++counts_.tcp_queries;
    if (--flow_left_ == 0) {
        flow.close(time, waiting_);
        flow_.reset();
    }
}

TcpFlow& Synthesizer::open_connection(Nanoseconds time) {
    flow_client_ = clients_.draw(random_);
    flow_left_ = draw_geometric(plan_.options.tcp_queries, random_);
    const Endpoint client = client_endpoint(flow_client_);
    ++counts_.connections;
    return flow_.emplace(time, client, server_for(flow_client_), random_, waiting_);
}

void Synthesizer::close_idle(Nanoseconds time) {
    if (flow_ && time > flow_->last_sent() + kIdleLimit) {
        flow_->close(flow_->last_sent() + kIdleLimit, waiting_);
        flow_.reset();
    }
}

void Synthesizer::write_until(Nanoseconds time) {
    while (!waiting_.empty() && waiting_.next_time() <= time) {
        writer_.write(waiting_.next_time(), waiting_.next_packet());
        waiting_.pop();
    }
}

Endpoint Synthesizer::client_endpoint(std::uint32_t client) {
    const auto port = static_cast<std::uint16_t>(random_.between(kFirstPort, 65'535));
    return {clients_.address(client), port};
}

const Endpoint& Synthesizer::server_for(std::uint32_t client) const {
    return clients_.habit(client).ipv6 ? plan_.server6 : plan_.server4;
}

} // namespace reprise::mutator
