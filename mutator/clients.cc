#include "mutator/clients.hh"

#include "core/address.hh"
#include "mutator/random.hh"
#include "mutator/synth_options.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {
namespace {

double total_weight(const Mix& mix) {
    double total = 0;
    for (const WeightedNumber& item : mix) {
        total += item.weight;
    }
    return total;
}

/// A bijection of the numbers below 2^bits that keeps 0: multiplication by an odd number.
std::uint64_t spread(std::uint64_t number, std::uint64_t mask) {
    return (number * 0x9e3779b97f4a7c15ULL) & mask;
}

/// Host part of client number `client`, neither all zeros nor all ones.
std::uint64_t host_part(std::uint32_t client, unsigned bits) {
    const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    const std::uint64_t host = spread(std::uint64_t{client} + 1, mask);
    return host == mask ? spread(mask, mask) : host; // no client has number `mask`
}

} // namespace

Clients::Clients(const SynthPlan& plan)
    : prefix4_(plan.clients4), prefix6_(plan.clients6),
      activity_(zipf_weights(plan.options.clients, plan.options.zipf)) {
    make_habits(plan);
    deal(zipf_weights(plan.options.clients, plan.options.zipf));
}

void Clients::make_habits(const SynthPlan& plan) {
    const SynthOptions& options = plan.options;
    const double sizes = total_weight(plan.edns_sizes);
    const auto add = [this](const ClientHabit& habit, double share) {
        if (share > 0) {
            habits_.push_back(habit);
            shares_.push_back(share);
        }
    };
    for (const bool ipv6 : {false, true}) {
        const double family = ipv6 ? options.ipv6_share : 1 - options.ipv6_share;
        add({.ipv6 = ipv6}, family * (1 - options.edns_share));
        for (const WeightedNumber& size : plan.edns_sizes) {
            const double share = family * options.edns_share * size.weight / sizes;
            add({ipv6, true, true, size.value}, share * options.do_share);
            add({ipv6, true, false, size.value}, share * (1 - options.do_share));
        }
    }
}

void Clients::deal(const std::vector<double>& weights) {
    std::vector<double> lack(habits_.size(), 0);
    kinds_.reserve(weights.size());
    for (const double weight : weights) {
        for (size_t i = 0; i < lack.size(); ++i) {
            lack[i] += shares_[i] * weight;
        }
        const auto most = std::ranges::max_element(lack);
        *most -= weight;
        kinds_.push_back(static_cast<std::uint16_t>(most - lack.begin()));
    }
}

IpAddress Clients::address(std::uint32_t client) const {
    const ClientPrefix& prefix = habit(client).ipv6 ? prefix6_ : prefix4_;
    IpAddress address = prefix.address;
    std::uint64_t host = host_part(client, prefix.host_bits());
    for (size_t i = address.size(); i > 0 && host != 0; --i, host >>= 8U) {
        address.bytes[i - 1] |= static_cast<std::uint8_t>(host);
    }
    return address;
}

} // namespace reprise::mutator
